package translate

import (
	"fmt"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/portald/portald/platform/inet"
)

// hints are the topology hints of an endpoint: the nodes or zones whose clients should use it.
type hints struct {
	nodes    bool   // some nodes are named
	thisNode bool   // and this one is among them
	zones    string // those that are named, a line each
}

// mostHints is how many zones the API server takes as hints of an endpoint.
const mostHints = 8

// hintsOf reads hints; nil is none.
func hintsOf(h *discoveryv1.EndpointHints, nodeName string, on endpointReport) (out hints) {
	if h == nil {
		return out
	}
	if n := len(h.ForZones); n > mostHints {
		on.on.add(endpointField(on.i, "hints.forZones"), n, fmt.Sprintf("zones are too many, and ignored; write at most %d",
			mostHints))
		return out
	}
	for _, node := range h.ForNodes {
		out.nodes = true
		out.thisNode = out.thisNode || nodeName != "" && node.Name == nodeName
	}
	names := make([]string, 0, len(h.ForZones))
	for i := range h.ForZones {
		if zone := on.text("hints.forZones", h.ForZones[i].Name, &zoneName, "and ignored"); zone != "" {
			names = append(names, zone)
		}
	}
	out.zones = strings.Join(names, "\n")
	return out
}

// zone tells whether a zone is named.
func (h hints) zone(name string) bool {
	if h.zones == name {
		return true
	}
	for named := range strings.SplitSeq(h.zones, "\n") {
		if named == name {
			return true
		}
	}
	return false
}

// applyHints sets NotHinted of the ready endpoints that clients of this node should not use, for each family by itself.
// Hints for nodes take precedence over hints for zones. Hints apply only if every ready endpoint has one and some name
// this node, or its zone, so that a ready endpoint is always left.
func applyHints(all []candidate, zone string) {
	for _, family := range inet.Families() {
		var ready []*candidate
		for i := range all {
			if c := &all[i]; c.Ready && inet.FamilyOf(c.Addr.Addr()) == family {
				ready = append(ready, c)
			}
		}
		applyHintsTo(ready, zone)
	}
}

// applyHintsTo does so for the ready endpoints of one family.
func applyHintsTo(ready []*candidate, zone string) {
	forNode := func(c *candidate) bool { return c.hints.thisNode }
	forZone := func(c *candidate) bool { return zone != "" && c.hints.zone(zone) }
	all := func(have func(hints) bool) bool {
		return !slices.ContainsFunc(ready, func(c *candidate) bool { return !have(c.hints) })
	}
	var hinted func(*candidate) bool
	switch {
	case all(func(h hints) bool { return h.nodes }) && slices.ContainsFunc(ready, forNode):
		hinted = forNode
	case all(func(h hints) bool { return h.zones != "" }) && slices.ContainsFunc(ready, forZone):
		hinted = forZone
	default:
		return
	}
	for _, c := range ready {
		c.NotHinted = !hinted(c)
	}
}

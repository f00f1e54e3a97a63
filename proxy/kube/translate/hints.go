package translate

import (
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/portald/portald/proxy/service"
)

// hints are the topology hints of an endpoint: whose clients it is meant for.
type hints struct {
	nodes    bool   // nodes are named,
	thisNode bool   // … this one among them
	zones    string // those named, a line each
}

// hintsOf reads hints; nil is none.
func hintsOf(h *discoveryv1.EndpointHints, nodeName string) (out hints) {
	if h == nil {
		return out
	}
	for _, node := range h.ForNodes {
		out.nodes = true
		out.thisNode = out.thisNode || nodeName != "" && node.Name == nodeName
	}
	names := make([]string, 0, len(h.ForZones))
	for _, zone := range h.ForZones {
		names = append(names, zone.Name)
	}
	out.zones = strings.Join(names, "\n")
	return out
}

// zone tells whether the zone is named.
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

// markNotHinted marks the ready endpoints that hints keep this node's clients away from, in each family by itself. Hints
// for nodes come before those for zones. They count only where every ready endpoint has one and some name this node, or
// its zone: so they never leave a client without a ready endpoint.
func markNotHinted(all []candidate, zone string) {
	for _, family := range service.IPFamilies() {
		var ready []*candidate
		for i := range all {
			if c := &all[i]; c.Ready && service.FamilyOf(c.Addr.Addr()) == family {
				ready = append(ready, c)
			}
		}
		markWithoutHint(ready, zone)
	}
}

// markWithoutHint marks those of the ready endpoints of one family that no hint gives to this node.
func markWithoutHint(ready []*candidate, zone string) {
	forNode := func(c *candidate) bool { return c.hints.thisNode }
	forZone := func(c *candidate) bool { return zone != "" && c.hints.zone(zone) }
	without := func(has func(hints) bool) bool {
		return slices.ContainsFunc(ready, func(c *candidate) bool { return !has(c.hints) })
	}
	near := forNode
	if without(func(h hints) bool { return h.nodes }) || !slices.ContainsFunc(ready, forNode) {
		near = forZone
		if without(func(h hints) bool { return h.zones != "" }) || !slices.ContainsFunc(ready, forZone) {
			return
		}
	}
	for _, c := range ready {
		c.NotHinted = !near(c)
	}
}

package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// clients reports the conditions that clients meet: source ranges, limits, affinity.
func (e *explained) clients() {
	e.section("Clients")
	e.ranges()
	if e.Port.Mode.Or(e.node.Mode) == service.ModeUserspace {
		e.limit()
		e.shares()
		e.waits()
	}
	e.affinity()
	if len(e.report.Sections[len(e.report.Sections)-1].Lines) == 0 {
		e.add(Good, nil, "all are admitted, and none is bound to an endpoint")
	}
}

// ranges are who may use the load balancer's addresses.
func (e *explained) ranges() {
	balanced := func(x service.Exposure) bool { return x.Kind == service.LoadBalancerIP }
	if len(e.Port.SourceRanges) == 0 || !slices.ContainsFunc(e.exposures(), balanced) {
		return
	}
	var all []string
	for _, p := range e.Port.SourceRanges {
		all = append(all, p.String())
	}
	text := "loadBalancerSourceRanges " + strings.Join(all, ", ")
	switch from := e.query.From; {
	case !from.IsValid():
		e.add(Fact, nil, "%s: other clients of the same family are refused at the load balancer's addresses", text)
	case len(e.Port.SourceRangesOf(inet.FamilyOf(from))) == 0:
		e.add(Good, nil, "%s: everyone is admitted by %s, which has no range", text, inet.FamilyOf(from))
	case e.Port.Admits(from):
		e.add(Good, nil, "%s admit %s", text, from)
	default:
		e.add(Wrong, nil, "%s leave out %s: it is refused at the load balancer's addresses", text, from)
		e.find(Wrong, "kubectl get service -o yaml -n "+e.Port.Name.Namespace+" "+e.Port.Name.Name,
			"%s may not use the load balancer's addresses of %s: loadBalancerSourceRanges leave it out.", from, e.label())
	}
}

// limit is how many connections there may be.
func (e *explained) limit() {
	most := e.Port.Policy.Or(e.node.Policy).MaxConnections
	if most <= 0 {
		return
	}
	for _, family := range inet.Families() {
		if len(e.Port.ExposuresOf(family)) == 0 {
			continue
		}
		open := e.Open[family]
		if open < most {
			e.add(Good, nil, "%d of at most %d connections of %s are open", open, most, family)
			continue
		}
		e.add(Wrong, nil, "%d connections of %s are open, and more than %d are refused", open, family, most)
		e.find(Wrong, "portald conns "+e.flag(), "%s has as many connections as it may, %d: new ones are refused.", e.label(),
			most)
	}
}

// waits says how long clients wait for an endpoint.
func (e *explained) waits() {
	most, wake := e.patience(), e.Port.Policy.Wake
	if most <= 0 {
		if wake != (service.Wake{}) {
			e.add(Doubt, nil, "portald.io/wake scales nothing without portald.io/wait-for-endpoint")
		}
		return
	}
	e.add(Fact, nil, "a new connection waits up to %s for an endpoint that is ready and answers; %d of the Service wait "+
		"now", most, e.Waiting)
	if wake != (service.Wake{}) {
		e.add(Fact, nil, "%s/%s is scaled from 0 to %d then", wake.Kind, wake.Name, wake.Replicas)
	}
}

// patience is how long a client waits for an endpoint; not above 0: it does not.
func (e *explained) patience() time.Duration {
	if e.Port.Mode.Or(e.node.Mode) != service.ModeUserspace {
		return 0
	}
	return e.Port.Policy.Or(e.node.Policy).WaitForEndpoint
}

// affinity is how clients are bound to endpoints.
func (e *explained) affinity() {
	if e.Port.Affinity == 0 {
		return
	}
	text := fmt.Sprintf("ClientIP affinity for %s after the last connection", e.Port.Affinity)
	if e.Port.Mode.Or(e.node.Mode) == service.ModeKernel {
		e.add(Fact, nil, "%s, kept by the kernel", text)
		return
	}
	e.add(Fact, nil, "%s", text)
	if !e.query.From.IsValid() || e.Bound == nil {
		return
	}
	bound := false
	for _, a := range e.audiences() {
		if at, ok := e.Bound(a.scope, e.query.From); ok && !bound {
			bound = true
			e.add(Fact, nil, "%s is bound to %s", e.query.From, at)
		}
	}
	if !bound {
		e.add(Fact, nil, "%s is not bound to an endpoint now", e.query.From)
	}
}

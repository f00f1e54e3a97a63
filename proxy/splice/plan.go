package splice

import "github.com/portald/portald/proxy/service"

// plan is what the new connections of a front go by. It does not change: a connection keeps the one it began with.
type plan struct {
	View
	scopes   [service.Kinds]service.Scope // of each kind of frontend: the port itself is another place to look at
	policy   service.Policy               // nothing is left open
	defaults *service.Policy              // of the engine, which filled in what the service port leaves open
}

func newPlan(v *View, defaults *service.Policy) *plan {
	p := &plan{View: *v, policy: v.Port.Policy.Or(*defaults), defaults: defaults}
	for k := range p.scopes {
		p.scopes[k] = v.Port.Scope(service.Kind(k))
	}
	return p
}

package splice

import "github.com/portald/portald/portal/service"

// plan is a View with its policy and scopes. It does not change: a connection keeps the plan that it began with.
type plan struct {
	View
	scopes   [service.Kinds]service.Scope // by the kind of frontend: kept here to save a cache line for each connection
	policy   service.Policy               // complete
	defaults *service.Policy              // the core's, for what the service port leaves open
}

func newPlan(v *View, defaults *service.Policy) *plan {
	p := &plan{View: *v, policy: v.Port.Policy.Or(*defaults), defaults: defaults}
	for k := range p.scopes {
		p.scopes[k] = v.Port.Scope(service.Kind(k))
	}
	return p
}

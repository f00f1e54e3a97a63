package splice

import (
	"net/netip"

	"github.com/portald/portald/proxy/service"
)

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

// present is the plan of this moment, made anew when the engine's defaults are not those it was made with.
func (f *Front) present() *plan {
	for {
		p, defaults := f.plan.Load(), f.engine.policy.Load()
		if p.defaults == defaults {
			return p
		}
		f.plan.CompareAndSwap(p, newPlan(&p.View, defaults))
	}
}

// endpoint finds what is known of an endpoint that was picked: by the plan that the connection began with, or by the present
// one if it is newer than that.
func (f *Front) endpoint(p *plan, addr netip.AddrPort) service.Endpoint {
	e, ok := p.endpoint(addr)
	if !ok {
		e, _ = f.present().endpoint(addr)
	}
	return e
}

// SetPolicy replaces the daemon's defaults, of which zero fields mean DefaultPolicy. Open connections go on as they
// began; the idle timeout of UDP holds for open sessions too. It is not called any more once Run's ctx has ended.
func (e *Engine) SetPolicy(p service.Policy) {
	e.storePolicy(p)
	for _, l := range e.loops {
		l.do(func() {
			for _, u := range handlers[*udpSocket](l) {
				u.sweep(l.now)
			}
		})
	}
}

func (e *Engine) storePolicy(p service.Policy) {
	p = p.Or(DefaultPolicy())
	e.policy.Store(&p)
}

package splice

import (
	"net/netip"

	"github.com/portald/portald/portal/service"
)

// Pickers choose among the endpoints of each service.Scope; nil = there are none.
type Pickers [2]Picker

// setDefaults replaces nil, so that callers need not check for it.
func (p *Pickers) setDefaults() {
	for i := range p {
		if p[i] == nil {
			p[i] = emptyPicker{}
		}
	}
}

// emptyPicker has no endpoints.
type emptyPicker struct{}

func (emptyPicker) Pick(netip.Addr, []netip.AddrPort, *service.Policy) (Lease, bool) {
	return Lease{}, false
}

func (emptyPicker) MayRetry(*service.Policy) bool { return true }

func (emptyPicker) Retried() {}

func (emptyPicker) Join(netip.AddrPort) State { return nil }

// scope returns which endpoints the client of a frontend of that kind may be led to. depends: the cluster's if the
// client is inside, since an external traffic policy Local is for clients from outside.
func (p *plan) scope(kind service.Kind) (s service.Scope, depends bool) {
	s = p.scopes[kind]
	return s, s == service.NodeScope && kind != service.ClusterIP
}

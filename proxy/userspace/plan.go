package userspace

import (
	"errors"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Plan is a dataplane.Carrier that listens nowhere: it returns the portals of a Carrier for which every proxy port is
// free, the same ones for the same service ports in the same order.
type Plan struct {
	ports    *proxyPorts
	shared   map[frontKey]uint16
	direct   bool
	defaults service.Policy
}

// NewPlan returns a Plan for proxy ports of a range, with the daemon's defaults.
func NewPlan(within inet.PortRange, defaults service.Policy) *Plan {
	return &Plan{ports: newProxyPorts(within), shared: map[frontKey]uint16{}, defaults: defaults}
}

// NewDirectPlan returns a Plan without proxy ports, as Options.Direct.
func NewDirectPlan(defaults service.Policy) *Plan {
	return &Plan{ports: newProxyPorts(inet.PortRange{}), direct: true, defaults: defaults}
}

// Serve gives the service port the next proxy port of each family that it is wanted in.
func (p *Plan) Serve(sp *service.Port) (out []portal.Portal, err error) {
	leads := targets{sp, p.direct, sp.Policy.Or(p.defaults).WaitForEndpoint > 0}
	for _, family := range inet.Families() {
		usable := sp.UsableEndpoints(family)
		to, none := p.redirect(frontKey{sp.Name, family}, leads.wanted(usable, family))
		err = errors.Join(err, none)
		out = append(out, leads.portals(family, usable, to)...)
	}
	return out, err
}

func (p *Plan) redirect(key frontKey, wanted bool) (*portal.Redirect, error) {
	switch {
	case !wanted:
		return nil, nil
	case p.direct:
		return &portal.Redirect{}, nil
	}
	port, err := p.take(key)
	shared, ok := p.ports.shared(key)
	switch {
	case err == nil:
		return &portal.Redirect{Port: port}, nil
	case !ok:
		return nil, err
	case p.shared[shared] == 0:
		if p.shared[shared], err = p.take(shared); err != nil {
			return nil, err
		}
	}
	return &portal.Redirect{Port: p.shared[shared]}, nil
}

func (p *Plan) take(key frontKey) (uint16, error) {
	return p.ports.take(key, 0, func(uint16) (bool, error) { return false, nil })
}

// ProxyPorts returns those that would be opened.
func (p *Plan) ProxyPorts() map[portal.ProxyPort]bool { return p.ports.changes() }

// Retire has nothing to close.
func (p *Plan) Retire([]service.PortName, []service.Change) error { return nil }

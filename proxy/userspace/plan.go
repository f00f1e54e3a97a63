package userspace

import (
	"errors"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// Plan is a dataplane.Carrier that listens nowhere: it returns the portals of a Carrier for which every proxy port is
// free, the same ones for the same service ports in the same order.
type Plan struct{ ports *proxyPorts }

// NewPlan returns a Plan for proxy ports of a range.
func NewPlan(within PortRange) *Plan { return &Plan{newProxyPorts(within)} }

// Serve gives the service port the next proxy port of each family that it is wanted in.
func (p *Plan) Serve(sp *service.Port) (out []portal.Portal, err error) {
	for _, family := range service.IPFamilies() {
		usable, proxyPort := sp.UsableEndpoints(family), uint16(0)
		if wanted(sp, usable, family) {
			port, none := p.ports.take(frontKey{sp.Name, family}, 0, func(uint16) (bool, error) { return false, nil })
			proxyPort, err = port, errors.Join(err, none)
		}
		for _, x := range sp.ExposuresOf(family) {
			to := target(sp.Availability(usable, x.Kind), proxyPort)
			out = append(out, portal.Portal{Frontend: x.Frontend, Kind: x.Kind, Target: to})
		}
	}
	return out, err
}

// ProxyPorts returns those that would be opened.
func (p *Plan) ProxyPorts() map[portal.ProxyPort]bool { return p.ports.changes() }

// Retire has nothing to close.
func (p *Plan) Retire([]service.PortName, []service.Change) error { return nil }

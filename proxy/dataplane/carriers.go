package dataplane

import (
	"errors"
	"fmt"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Carrier carries service ports in one mode.
type Carrier interface {
	// Serve prepares to carry a service port, or updates what carries it, and returns its portals, also with an error.
	Serve(p *service.Port) ([]portal.Portal, error)
	// Retire closes what portals no longer lead to. It is called once a sync: served are the service ports whose
	// portals are now as the last Serve returned them, left are those without portals to this carrier. The latter are
	// gone (Port is nil) or carried by another, and may never have been served here.
	Retire(served []service.PortName, left []service.Change) error
	// ProxyPorts returns the proxy ports that were opened (true) and closed since the last call.
	ProxyPorts() map[portal.ProxyPort]bool
}

// Planner is a Carrier that may serve a changed service port as its portals are.
type Planner interface {
	// PlannedPortals returns the portals that Serve would, and changes nothing. Then serve does the rest of Serve, as long
	// as nothing else was done to the service port; nil: Serve would open or close a proxy port.
	PlannedPortals(p *service.Port) (portals []portal.Portal, serve func() error)
}

// carriers has the carrier of each mode.
type carriers struct {
	userspace, kernel Carrier      // nil: service ports of that mode refuse their clients
	mode              service.Mode // of service ports that set none
}

// errNoCarrier is the error of a service port whose mode the daemon does not have.
var errNoCarrier = errors.New("this daemon does not have the mode that the Service asks for")

// of returns the carrier of a service port, and the other one. Either may be nil.
func (c *carriers) of(p *service.Port) (by, other Carrier) {
	if p.Mode.Or(c.mode) == service.ModeKernel {
		return c.kernel, c.userspace
	}
	return c.userspace, c.kernel
}

// serve has the carrier of a service port prepare it, and returns the portals.
func (c *carriers) serve(p *service.Port) ([]portal.Portal, Reason, error) {
	if by, _ := c.of(p); by != nil {
		portals, err := by.Serve(p)
		return portals, ByListener, err
	}
	return rejects(p), ByMode, fmt.Errorf("serve %s: %w", p.Name, errNoCarrier)
}

// rejects returns portals that refuse all clients of a service port.
func rejects(p *service.Port) []portal.Portal {
	out := make([]portal.Portal, 0, len(p.Exposures))
	for _, x := range p.Exposures {
		out = append(out, portal.Portal{Frontend: x.Frontend, Kind: x.Kind, Target: portal.Reject{}})
	}
	return out
}

// eachProxyPorts visits the proxy ports that each carrier has opened and closed since the last call.
func (c *carriers) eachProxyPorts(visit func(map[portal.ProxyPort]bool)) {
	for _, carrier := range [...]Carrier{c.userspace, c.kernel} {
		if carrier == nil {
			continue
		}
		if ports := carrier.ProxyPorts(); len(ports) > 0 {
			visit(ports)
		}
	}
}

// retire has carriers close what portals no longer lead to.
func (c *carriers) retire(changes []service.Change) error {
	served, left := map[Carrier][]service.PortName{}, map[Carrier][]service.Change{}
	for _, change := range changes {
		if change.Port == nil {
			left[c.userspace], left[c.kernel] = append(left[c.userspace], change), append(left[c.kernel], change)
			continue
		}
		by, other := c.of(change.Port)
		served[by], left[other] = append(served[by], change.Name), append(left[other], change)
	}
	var errs []error
	for _, carrier := range [...]Carrier{c.userspace, c.kernel} {
		if carrier != nil {
			errs = append(errs, carrier.Retire(served[carrier], left[carrier]))
		}
	}
	return errors.Join(errs...)
}

package dataplane

import (
	"errors"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// planner has carriers prepare changes, and plans their portals.
type planner struct {
	carriers   *carriers
	check      func(portal.Portal) error          // what the writer can tell without trying
	ports      map[service.PortName]*service.Port // as planned last
	health     *healthPorts
	quarantine *quarantine
	serving    func(*service.Port)

	ahead map[service.PortName]planned // of service ports whose portals stay, until the next sync has ended
}

// planned has the portals that a carrier planned before the sync that serves them.
type planned struct {
	port    *service.Port
	portals []portal.Portal
	serve   func() error
}

// planAhead plans a change in which the carrier stays the same and opens or closes no proxy port, and changes nothing.
// False: it is not one.
func (p *planner) planAhead(c service.Change) (planned, bool) {
	was := p.ports[c.Name]
	if c.Port == nil || was == nil {
		return planned{}, false
	}
	by, _ := p.carriers.of(c.Port)
	if before, _ := p.carriers.of(was); by != before {
		return planned{}, false
	}
	carrier, ok := by.(Planner)
	if !ok {
		return planned{}, false
	}
	portals, serve := carrier.PlannedPortals(c.Port)
	return planned{c.Port, portals, serve}, serve != nil
}

// remember has the next sync serve a service port as was planned.
func (p *planner) remember(ahead planned) {
	if p.ahead == nil {
		p.ahead = map[service.PortName]planned{}
	}
	p.ahead[ahead.port.Name] = ahead
}

// forget has the next sync plan everything. A cleared map would keep its size, and clearing it again cost that.
func (p *planner) forget() { p.ahead = nil }

// plans has carriers prepare changes. A service port that cannot be served is quarantined and refuses its clients; the
// others are not affected.
func (p *planner) plans(changes []service.Change) []plan {
	out := make([]plan, 0, len(changes))
	for _, c := range changes {
		out = append(out, p.plan(c))
	}
	return out
}

func (p *planner) plan(c service.Change) plan {
	if c.Port == nil {
		p.health.set(c.Name, 0)
		return plan{change: c}
	}
	p.ports[c.Name] = c.Port
	p.health.set(c.Name, c.Port.HealthCheckPort)
	p.serving(c.Port)
	portals, reason, err := p.serve(c)
	if err != nil {
		p.quarantine.put(c, reason, err)
	}
	return plan{c, c.Port.Created, portals}
}

// serve has the carrier of a service port prepare it, and returns the portals that the writer can write.
func (p *planner) serve(c service.Change) ([]portal.Portal, Reason, error) {
	if ahead := p.ahead[c.Name]; ahead.port == c.Port {
		return ahead.portals, ByListener, ahead.serve()
	}
	portals, reason, err := p.carriers.serve(c.Port)
	portals, invalid := p.valid(c.Name, portals)
	if err == nil && invalid != nil {
		reason, err = ByPortal, invalid
	}
	return portals, reason, err
}

// refusal plans that all clients of a service port are refused.
func (p *planner) refusal(c service.Change) plan {
	portals, _ := p.valid(c.Name, rejects(c.Port))
	return plan{c, c.Port.Created, portals}
}

// valid returns the portals that the writer can write, as far as it can tell without trying.
func (p *planner) valid(owner service.PortName, portals []portal.Portal) ([]portal.Portal, error) {
	var errs []error
	return slices.DeleteFunc(portals, func(x portal.Portal) bool {
		x.Owner = owner
		err := p.check(x)
		errs = append(errs, err)
		return err != nil
	}), errors.Join(errs...)
}

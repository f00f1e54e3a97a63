package userspace

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/splice"
)

// front is the listener of one service port in one family, and its balancers.
type front struct {
	*splice.Front
	balancers [2]*balance.Balancer    // by service.Scope
	port      uint16                  // the proxy port; 0 = none
	inUse     bool                    // some portal is to redirect there
	loopback  map[netip.AddrPort]bool // NodePorts at the loopback address; false: the port is taken
	direct    map[netip.AddrPort]struct{}
}

func (c *Carrier) newFront(name service.PortName) *front {
	f := &front{loopback: map[netip.AddrPort]bool{}, direct: map[netip.AddrPort]struct{}{}}
	for scope := range f.balancers {
		f.balancers[scope] = balance.New(c.endpoints, name, balance.Options{})
	}
	return f
}

func (f *front) closeBalancers() {
	for _, b := range f.balancers {
		b.Close()
	}
}

// idle tells whether the front listens nowhere.
func (f *front) idle() bool { return f.port == 0 && len(f.loopback) == 0 && len(f.direct) == 0 }

// Serve updates the fronts of a service port and returns its portals.
func (c *Carrier) Serve(p *service.Port) ([]portal.Portal, error) {
	portals := make([]portal.Portal, 0, len(p.Exposures))
	c.renewDrains(p)
	var errs []error
	for _, key := range keys(p.Name) {
		usable := p.UsableEndpoints(key.family)
		to, err := c.front(key, p, usable)
		if err != nil {
			errs = append(errs, err)
		}
		portals = append(portals, c.led(p).portals(key.family, usable, to)...)
	}
	return portals, errors.Join(errs...)
}

// PlannedPortals implements dataplane.Planner.
func (c *Carrier) PlannedPortals(p *service.Port) (portals []portal.Portal, serve func() error) {
	portals = make([]portal.Portal, 0, len(p.Exposures))
	var all [2]service.UsableEndpoints
	for _, key := range keys(p.Name) {
		usable := p.UsableEndpoints(key.family)
		f := c.fronts[key]
		if f != nil && (!f.inUse || f.port == 0 && !c.opts.Direct) || c.led(p).wanted(usable, key.family) != (f != nil) {
			return nil, nil
		}
		var to *portal.Redirect
		if f != nil {
			to = &portal.Redirect{Port: f.port}
		}
		portals = append(portals, c.led(p).portals(key.family, usable, to)...)
		all[key.family] = usable
	}
	return portals, func() error { return c.servePlanned(p, all) }
}

// servePlanned updates the fronts of a service port, which redirect as before.
func (c *Carrier) servePlanned(p *service.Port, usable [2]service.UsableEndpoints) error {
	c.renewDrains(p)
	var errs []error
	for _, key := range keys(p.Name) {
		if f := c.fronts[key]; f != nil {
			errs = append(errs, c.refresh(key, f, p, usable[key.family]))
		}
	}
	return errors.Join(errs...)
}

func (c *Carrier) led(p *service.Port) led { return led{p, c.opts.Direct, c.opts.Core.Holds(p)} }

// front opens or updates the front of a service port in one family if it is wanted, and returns how portals redirect to
// it. One that is no longer wanted stays open until portals no longer do, and nil is returned.
func (c *Carrier) front(
	key frontKey, p *service.Port, usable service.UsableEndpoints,
) (to *portal.Redirect, err error) {
	f := c.fronts[key]
	if !c.led(p).wanted(usable, key.family) {
		if f != nil {
			f.inUse = false
			f.Lose(p.EndpointsOf(key.family))
		}
		return nil, nil
	}
	if f == nil {
		f = c.newFront(key.name)
	}
	if err := c.refresh(key, f, p, usable); err != nil {
		return nil, err
	}
	f.inUse = true
	if c.opts.Direct {
		return &portal.Redirect{}, nil
	}
	delete(c.lingering, key)
	if f.port == 0 {
		err = c.openProxyPort(key, f)
	}
	if f.idle() {
		c.drop(key, f)
	}
	if f.port == 0 {
		return nil, err
	}
	return &portal.Redirect{Port: f.port}, err
}

// refresh updates what a front serves and where it listens, all but its proxy port.
func (c *Carrier) refresh(key frontKey, f *front, p *service.Port, usable service.UsableEndpoints) (err error) {
	for scope, b := range f.balancers {
		b.SetAffinity(p.Affinity)
		b.SetEndpoints(addresses(usable[scope]))
		if f.Front == nil {
			b.Restore(c.opts.Inherit(key.name, key.family).Scopes[scope])
		}
	}
	view := &splice.View{Port: p, Exposures: p.ExposuresOf(key.family), Endpoints: p.EndpointsOf(key.family)}
	if f.Front != nil {
		f.Retarget(view)
	} else {
		pickers := splice.Pickers{picker{f.balancers[service.ClusterScope]}, picker{f.balancers[service.NodeScope]}}
		if f.Front, err = c.opts.Core.Open(p.Name, pickers, view); err != nil {
			f.closeBalancers()
			return fmt.Errorf("serve %s: %w", p.Name, err)
		}
		c.keep(key, f)
	}
	c.serveLoopback(key, f, c.loopbacks(p, usable, key.family))
	return nil
}

// openProxyPort takes a free proxy port and listens there.
func (c *Carrier) openProxyPort(key frontKey, f *front) error {
	former := c.opts.Inherit(key.name, key.family).Port
	port, err := c.ports.take(key, former, func(port uint16) (retry bool, err error) {
		err = c.listenAgain(f, proxyAddress(key.family, port))
		return errors.Is(err, syscall.EADDRINUSE), err
	})
	if err != nil {
		return fmt.Errorf("serve %s: %w", key.name, err)
	}
	f.port = port
	return nil
}

// hasLoopback tells whether a service port may have NodePorts at the loopback address, whatever its endpoints are.
func (c *Carrier) hasLoopback(p *service.Port, family inet.Family) bool {
	isNodePort := func(x service.Exposure) bool { return x.Kind == service.NodePort }
	return c.opts.Localhost[family] && service.ModeUserspace.Carries(p.Name.Protocol) &&
		slices.ContainsFunc(p.ExposuresOf(family), isNodePort)
}

// loopbacks returns the NodePorts of a service port at the loopback address, while it has an endpoint or clients wait
// for one. They need listeners: to redirect that address would open the loopback network to neighbours
// (route_localnet).
func (c *Carrier) loopbacks(p *service.Port, usable service.UsableEndpoints,
	family inet.Family) map[netip.AddrPort]bool {
	out := map[netip.AddrPort]bool{}
	available := c.opts.Core.Holds(p) || p.Availability(usable, service.NodePort) >= service.AvailableInside
	if !available || !c.hasLoopback(p, family) {
		return out
	}
	for _, x := range p.ExposuresOf(family) {
		if x.Kind == service.NodePort {
			out[netip.AddrPortFrom(family.Loopback(), x.Frontend.Addr.Port())] = true
		}
	}
	return out
}

// serveLoopback has a front listen at these loopback addresses and no others. One that another program has is tried
// again later.
func (c *Carrier) serveLoopback(key frontKey, f *front, wanted map[netip.AddrPort]bool) {
	for at, open := range f.loopback {
		if !wanted[at] {
			if open {
				f.Unlisten(at)
				c.freed(service.Frontend{Addr: at, Protocol: key.name.Protocol})
			}
			delete(f.loopback, at)
		}
	}
	delete(c.refused, key)
	for at := range wanted {
		if open, reported := f.loopback[at]; open {
			continue
		} else if err := c.listenAgain(f, at); err != nil {
			f.loopback[at] = false
			c.refused[key] = time.Now().Add(listenAgain)
			if !reported {
				log := c.opts.Log.WithError(err).WithField("service", f.Name().Label())
				log.Warn("NodePort is not served at the loopback address")
			}
		} else {
			f.loopback[at] = true
		}
	}
}

// freed is called where a loopback address may be another front's from now on, which is tried at the next Sweep.
func (c *Carrier) freed(at service.Frontend) {
	c.closing[at] = time.Now().Add(closingTime)
	for key := range c.refused {
		c.refused[key] = time.Now()
	}
}

// listenAgain is how long a loopback address that another program has is left alone, as health-check ports are.
const listenAgain = 5 * time.Second

// retryLoopback tries those addresses of a front again that another program had.
func (c *Carrier) retryLoopback(key frontKey) {
	f := c.fronts[key]
	wanted := map[netip.AddrPort]bool{}
	for at := range f.loopback {
		wanted[at] = true
	}
	if c.serveLoopback(key, f, wanted); c.refused[key].IsZero() {
		c.opts.Log.WithField("service", f.Name().Label()).Info("NodePort is served at the loopback address now")
	}
}

func addresses(endpoints []service.Endpoint) []netip.AddrPort {
	out := make([]netip.AddrPort, 0, len(endpoints))
	for _, e := range endpoints {
		out = append(out, e.Addr)
	}
	return out
}

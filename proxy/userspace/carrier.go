// Package userspace carries service ports through listeners of the daemon: a front for each service port and address
// family, to which portals redirect. It listens at a proxy port, or, where the host cannot redirect, at the frontends'
// own addresses; NodePorts also at the loopback address. It does not know how portals are written, nor how bytes are
// carried.
//
// The Carrier serves one change after the other. Fronts is the register of what it has opened, for every other
// goroutine; Plan tells the portals that a Carrier would return without opening anything.
package userspace

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/splice"
)

// Options of a Carrier.
type Options struct {
	Core      *splice.Core
	Ports     inet.PortRange // default DefaultPortRange
	Listeners int            // how many TCP service ports may have a listener of their own; default: as many as Ports
	Log       logrus.FieldLogger
	Localhost [2]bool       // serve NodePorts at the loopback address too, by inet.Family
	Direct    *Direct       // not nil: there are no proxy ports, and a Writer of portals says where fronts listen
	Linger    time.Duration // how long a proxy port stays open that no portal redirects to any more; default 10 s
	// Reaches connects to an endpoint and closes the connection, for Recheck. Default: ejected endpoints are not dialled.
	Reaches func(ctx context.Context, at netip.AddrPort) error
	// Failed tells that a Writer could not serve a portal with Direct, and with nil that it does by now.
	Failed func(portal.Portal, error)
	// Inherit returns the sockets and bindings that a service port had with a predecessor. Default: none.
	Inherit func(service.PortName, inet.Family) Inherited
}

// defaultLinger is far more than a connection takes from the rule that redirects it to the listener, with two
// retransmissions of its SYN.
const defaultLinger = 10 * time.Second

// Carrier implements dataplane.Carrier and dataplane.Planner. One goroutine calls it.
type Carrier struct {
	opts      Options
	endpoints *balance.Endpoints
	fronts    *Fronts
	sockets   *sockets
	loopbacks *loopbacks
	proxies   *proxyListeners
	drains    drains
	recheck   rechecker
}

// New returns a Carrier that serves nothing yet.
func New(opts Options) *Carrier {
	if opts.Ports == (inet.PortRange{}) {
		opts.Ports = DefaultPortRange()
	}
	if opts.Linger == 0 {
		opts.Linger = defaultLinger
	}
	if opts.Inherit == nil {
		opts.Inherit = func(service.PortName, inet.Family) (_ Inherited) { return }
	}
	ports := newProxyPorts(opts.Ports)
	ports.most = opts.Listeners
	endpoints := balance.NewEndpoints()
	fronts := &Fronts{byKey: map[frontKey]*front{}}
	sockets := &sockets{map[service.Frontend]time.Time{}}
	c := &Carrier{
		opts: opts, endpoints: endpoints, fronts: fronts, sockets: sockets,
		loopbacks: &loopbacks{opts.Localhost, sockets, opts.Log, map[*front]time.Time{}, &fronts.loopbacks},
		proxies:   &proxyListeners{ports: ports, sockets: sockets, linger: opts.Linger, lingering: map[*front]time.Time{}},
		drains:    drains{endpoints, opts.Log},
		recheck:   rechecker{endpoints, opts.Reaches},
	}
	if opts.Direct != nil {
		opts.Direct.carrier = c
	}
	return c
}

// Fronts returns the fronts of all service ports that are carried here. Any goroutine may use them.
func (c *Carrier) Fronts() *Fronts { return c.fronts }

// Endpoints returns the endpoints of all service ports that are carried here, and what connections report of them. Any
// goroutine may use them.
func (c *Carrier) Endpoints() *balance.Endpoints { return c.endpoints }

// ProxyPortsInUse returns how many proxy ports of a protocol have a listener, of the Size of Options.Ports. Any
// goroutine may call it.
func (c *Carrier) ProxyPortsInUse(p inet.Protocol) int { return c.proxies.ports.inUse(p) }

// PortSharers returns how many TCP service ports share a proxy port, in each family that they do in. Any goroutine may
// call it.
func (c *Carrier) PortSharers() int { return int(c.proxies.sharers.Load()) }

// BusiestEndpoint returns how many TCP connections the endpoint has that has the most. Any goroutine may call it.
func (c *Carrier) BusiestEndpoint() int { return c.endpoints.Busiest(inet.TCP) }

// Recheck dials endpoints that are ejected since dials fail, until ctx ends. One that answers is tried by the next
// connection.
func (c *Carrier) Recheck(ctx context.Context) error { return c.recheck.run(ctx) }

// Serve updates the fronts of a service port and returns its portals.
func (c *Carrier) Serve(p *service.Port) ([]portal.Portal, error) {
	portals := make([]portal.Portal, 0, len(p.Exposures))
	c.drains.renew(p)
	var errs []error
	for _, key := range keys(p.Name) {
		usable := p.UsableEndpoints(key.family)
		to, err := c.front(key, p, usable)
		if err != nil {
			errs = append(errs, err)
		}
		portals = append(portals, c.targets(p).portals(key.family, usable, to)...)
	}
	return portals, errors.Join(errs...)
}

// PlannedPortals implements dataplane.Planner.
func (c *Carrier) PlannedPortals(p *service.Port) (portals []portal.Portal, serve func() error) {
	portals = make([]portal.Portal, 0, len(p.Exposures))
	targets := c.targets(p)
	var all [2]service.UsableEndpoints
	for _, key := range keys(p.Name) {
		usable := p.UsableEndpoints(key.family)
		f := c.fronts.get(key)
		idle := f != nil && (!f.inUse || f.port == 0 && c.opts.Direct == nil)
		if idle || targets.wanted(usable, key.family) != (f != nil) {
			return nil, nil
		}
		var to *portal.Redirect
		if f != nil {
			to = &portal.Redirect{Port: f.port}
		}
		portals = append(portals, targets.portals(key.family, usable, to)...)
		all[key.family] = usable
	}
	return portals, func() error { return c.servePlanned(p, all) }
}

// servePlanned updates the fronts of a service port, which redirect as before.
func (c *Carrier) servePlanned(p *service.Port, usable [2]service.UsableEndpoints) error {
	c.drains.renew(p)
	var errs []error
	for _, key := range keys(p.Name) {
		if f := c.fronts.get(key); f != nil {
			errs = append(errs, c.update(f, p, usable[key.family]))
		}
	}
	return errors.Join(errs...)
}

func (c *Carrier) targets(p *service.Port) targets {
	return targets{p, c.opts.Direct != nil, c.opts.Core.WaitsForEndpoint(p)}
}

// front opens or updates the front of a service port in one family if it is wanted, and returns how portals redirect to
// it. One that is no longer wanted stays open until portals no longer do, and nil is returned.
func (c *Carrier) front(
	key frontKey, p *service.Port, usable service.UsableEndpoints,
) (to *portal.Redirect, err error) {
	f := c.fronts.get(key)
	if !c.targets(p).wanted(usable, key.family) {
		if f != nil {
			f.inUse = false
			f.RetainOnly(p.EndpointsOf(key.family))
		}
		return nil, nil
	}
	if f == nil {
		f = newFront(key, c.endpoints)
	}
	if err := c.update(f, p, usable); err != nil {
		return nil, err
	}
	f.inUse = true
	if c.opts.Direct != nil {
		return &portal.Redirect{}, nil
	}
	c.proxies.reuse(f)
	if f.port == 0 {
		err = sharing{c}.listen(f)
	}
	if f.idle() {
		c.drop(f)
	}
	if f.port == 0 {
		return nil, err
	}
	return &portal.Redirect{Port: f.port}, err
}

// update opens a front if it is new, and updates what it serves and where it listens, all but its proxy port.
func (c *Carrier) update(f *front, p *service.Port, usable service.UsableEndpoints) (err error) {
	family := f.key.family
	for scope, b := range f.balancers {
		b.SetAffinity(p.Affinity)
		b.SetEndpoints(addresses(usable[scope]))
		if f.Front == nil {
			b.Restore(c.opts.Inherit(f.key.name, family).Scopes[scope])
		}
	}
	view := &splice.View{Port: p, Exposures: p.ExposuresOf(family), Endpoints: p.EndpointsOf(family)}
	if f.Front != nil {
		f.Retarget(view)
	} else {
		pickers := splice.Pickers{picker{f.balancers[service.ClusterScope]}, picker{f.balancers[service.NodeScope]}}
		if f.Front, err = c.opts.Core.Open(p.Name, pickers, view); err != nil {
			f.closeBalancers()
			return fmt.Errorf("serve %s: %w", p.Name, err)
		}
		c.fronts.add(f)
	}
	c.loopbacks.serve(f, c.loopbacksOf(p, usable, family))
	return nil
}

func (c *Carrier) loopbacksOf(
	p *service.Port, usable service.UsableEndpoints, family inet.Family,
) map[netip.AddrPort]bool {
	return c.loopbacks.wanted(p, usable, family, c.opts.Core.WaitsForEndpoint(p))
}

func addresses(endpoints []service.Endpoint) []netip.AddrPort {
	out := make([]netip.AddrPort, 0, len(endpoints))
	for _, e := range endpoints {
		out = append(out, e.Addr)
	}
	return out
}

// Retire closes the fronts that portals no longer redirect to.
func (c *Carrier) Retire(served []service.PortName, left []service.Change) error {
	for _, name := range served {
		for _, key := range keys(name) {
			switch f := c.fronts.get(key); {
			case f == nil:
			case f.inUse:
				f.SetGuarded(true)
			default:
				c.drop(f)
			}
		}
	}
	var errs []error
	for _, l := range left {
		errs = append(errs, c.retire(l))
	}
	return errors.Join(errs...)
}

// retire closes what served a service port. If another carrier has it, its proxy ports linger, since connections that
// were redirected just before still arrive; and its NodePorts stay served at the loopback addresses, which no rule can
// redirect.
func (c *Carrier) retire(left service.Change) error {
	c.drains.end(left)
	var errs []error
	for _, key := range keys(left.Name) {
		f := c.fronts.get(key)
		switch {
		case left.Port == nil && f != nil:
			f.RetainOnly(nil)
			c.drop(f)
		case left.Port != nil && (f != nil || c.loopbacks.eligible(left.Port, key.family)):
			errs = append(errs, c.serveRest(key, f, left.Port))
		}
	}
	return errors.Join(errs...)
}

// serveRest serves what remains here of a service port that another carrier has: a proxy port that lingers, and
// NodePorts at the loopback address.
func (c *Carrier) serveRest(key frontKey, f *front, p *service.Port) error {
	usable := p.UsableEndpoints(key.family)
	if f == nil && len(c.loopbacksOf(p, usable, key.family)) == 0 {
		return nil
	}
	if f == nil {
		f = newFront(key, c.endpoints)
	}
	if err := c.update(f, p, usable); err != nil {
		return err
	}
	c.proxies.leave(f)
	if f.idle() {
		c.drop(f)
	}
	return nil
}

// Sweep closes the proxy ports that have lingered long enough, tries loopback addresses again that were taken, and
// returns when the next is due.
func (c *Carrier) Sweep(context.Context) (next time.Time, err error) {
	now := time.Now()
	c.sockets.sweep(now)
	closed, next := c.proxies.sweep(now)
	for _, f := range closed {
		if f.idle() {
			c.drop(f)
		}
	}
	return earlier(next, c.loopbacks.sweep(now)), nil
}

// ProxyPorts returns the proxy ports that were opened (true) and closed since the last call.
func (c *Carrier) ProxyPorts() map[portal.ProxyPort]bool { return c.proxies.changes() }

// Withdraw is called at the end, when portals no longer redirect to any front. Fronts go on listening for connections
// that were redirected just before, but not at the loopback addresses, which never are. ProxyPorts then returns all
// proxy ports as closed: rules that guard them must not outlive the listeners.
func (c *Carrier) Withdraw() {
	for _, f := range c.fronts.clone() {
		c.loopbacks.serve(f, nil)
		c.proxies.withdraw(f)
	}
}

// Close drains every front: open connections and sessions go on, new ones are not accepted.
func (c *Carrier) Close() {
	for _, f := range c.fronts.clone() {
		f.Drain()
		c.forget(f)
	}
}

// drop closes a front and releases its proxy port.
func (c *Carrier) drop(f *front) {
	f.Close()
	c.forget(f)
}

func (c *Carrier) forget(f *front) {
	c.loopbacks.forget(f)
	c.proxies.forget(f)
	f.closeBalancers()
	c.fronts.remove(f)
}

// Package userspace is the carrier with listeners: a front for each service port and address family, which portals
// redirect to. It listens at a proxy port, or, where the host cannot redirect, at the frontends' own addresses. It does
// not know how portals are written, nor how bytes are carried.
package userspace

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"sync"
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
	Ports     PortRange // default DefaultPortRange
	Log       logrus.FieldLogger
	Localhost [2]bool       // serve NodePorts at the loopback address too, by inet.Family
	Direct    bool          // no proxy ports: the Writer of portals calls Listen and Unlisten
	Linger    time.Duration // how long a proxy port stays open that no portal redirects to any more; default 10 s
	// Reaches connects to an endpoint and closes the connection, for Recheck. Default: ejected endpoints are not dialled.
	Reaches func(ctx context.Context, at netip.AddrPort) error
	// Inherit is what a service port had before, such as with a predecessor. Default: nothing.
	Inherit func(service.PortName, inet.Family) Inherited
}

// defaultLinger is far more than a connection takes from the rule that redirects it to the listener, with two
// retransmissions of its SYN.
const defaultLinger = 10 * time.Second

// Carrier implements dataplane.Carrier. One goroutine calls it.
type Carrier struct {
	opts      Options
	endpoints *balance.Endpoints
	ports     *proxyPorts
	lingering map[frontKey]time.Time         // fronts whose proxy port closes at that time
	refused   map[frontKey]time.Time         // fronts with a loopback address that is tried again at that time
	closing   map[service.Frontend]time.Time // where nothing listens any more, until the engine has closed that

	mu     sync.Mutex // for Active, which any goroutine may call
	fronts map[frontKey]*front
}

func keys(name service.PortName) [2]frontKey {
	return [2]frontKey{{name, inet.IPv4}, {name, inet.IPv6}}
}

// New returns a Carrier that serves nothing yet.
func New(opts Options) *Carrier {
	if opts.Ports == (PortRange{}) {
		opts.Ports = DefaultPortRange()
	}
	if opts.Linger == 0 {
		opts.Linger = defaultLinger
	}
	if opts.Inherit == nil {
		opts.Inherit = func(service.PortName, inet.Family) (_ Inherited) { return }
	}
	return &Carrier{
		opts: opts, endpoints: balance.NewEndpoints(), ports: newProxyPorts(opts.Ports), fronts: map[frontKey]*front{},
		lingering: map[frontKey]time.Time{}, refused: map[frontKey]time.Time{}, closing: map[service.Frontend]time.Time{},
	}
}

// Retire closes the fronts that portals no longer redirect to.
func (c *Carrier) Retire(served []service.PortName, left []service.Change) error {
	for _, name := range served {
		for _, key := range keys(name) {
			switch f := c.fronts[key]; {
			case f == nil:
			case f.inUse:
				f.SetGuarded(true)
			default:
				c.drop(key, f)
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
	c.endDrains(left)
	var errs []error
	for _, key := range keys(left.Name) {
		f := c.fronts[key]
		switch {
		case left.Port == nil && f != nil:
			f.Lose(nil)
			c.drop(key, f)
		case left.Port != nil && (f != nil || c.hasLoopback(left.Port, key.family)):
			errs = append(errs, c.serveRest(key, f, left.Port))
		}
	}
	return errors.Join(errs...)
}

// serveRest serves what remains here of a service port that another carrier has: a proxy port that lingers, and
// NodePorts at the loopback address.
func (c *Carrier) serveRest(key frontKey, f *front, p *service.Port) error {
	usable := p.UsableEndpoints(key.family)
	if f == nil && len(c.loopbacks(p, usable, key.family)) == 0 {
		return nil
	}
	if f == nil {
		f = c.newFront(key.name)
	}
	if err := c.refresh(key, f, p, usable); err != nil {
		return err
	}
	if _, lingers := c.lingering[key]; f.port != 0 && !lingers {
		f.inUse, c.lingering[key] = false, time.Now().Add(c.opts.Linger)
	}
	if f.idle() {
		c.drop(key, f)
	}
	return nil
}

// Sweep closes the proxy ports that have lingered long enough, tries loopback addresses again that were taken, and
// returns when the next is due.
func (c *Carrier) Sweep(context.Context) (next time.Time, err error) {
	now := time.Now()
	maps.DeleteFunc(c.closing, func(_ service.Frontend, until time.Time) bool { return now.After(until) })
	for key, until := range c.lingering {
		if !now.Before(until) {
			c.closeProxyPort(key, c.fronts[key])
		} else if next.IsZero() || until.Before(next) {
			next = until
		}
	}
	for key, at := range c.refused {
		if !now.Before(at) {
			c.retryLoopback(key)
			at = c.refused[key]
		}
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next, nil
}

// ProxyPorts returns the proxy ports that were opened (true) and closed since the last call.
func (c *Carrier) ProxyPorts() map[portal.ProxyPort]bool { return c.ports.changes() }

// Withdraw is called at the end, when portals no longer redirect to any front. Fronts go on listening for connections
// that were redirected just before, but not at the loopback addresses, which never are. ProxyPorts then returns all
// proxy ports as closed: rules that guard them must not outlive the listeners.
func (c *Carrier) Withdraw() {
	for key, f := range c.fronts {
		c.serveLoopback(key, f, nil)
		if f.port != 0 {
			c.ports.changed[key.proxyPort(f.port)] = false
			f.SetGuarded(false)
		}
	}
}

// Close drains every front: open connections and sessions go on, new ones are not accepted.
func (c *Carrier) Close() {
	for key, f := range c.fronts {
		f.Drain()
		c.forget(key, f)
	}
}

// Active calls visit with the live connections or sessions of each service port that has any. It may be called from any
// goroutine.
func (c *Carrier) Active(visit func(name service.PortName, live int)) {
	live := map[service.PortName]int{}
	c.mu.Lock()
	for key, f := range c.fronts {
		if n := f.Active(); n > 0 {
			live[key.name] += int(n)
		}
	}
	c.mu.Unlock()
	for name, n := range live {
		visit(name, n)
	}
}

func (c *Carrier) keep(key frontKey, f *front) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fronts[key] = f
}

// closeProxyPort closes the proxy port of a front, and the front if it listens nowhere else.
func (c *Carrier) closeProxyPort(key frontKey, f *front) {
	delete(c.lingering, key)
	if f.port != 0 {
		f.Unlisten(proxyAddress(key.family, f.port))
		c.release(key, f)
	}
	if f.idle() {
		c.drop(key, f)
	}
}

// drop closes a front and releases its proxy port.
func (c *Carrier) drop(key frontKey, f *front) {
	f.Close()
	c.forget(key, f)
}

func (c *Carrier) forget(key frontKey, f *front) {
	delete(c.lingering, key)
	delete(c.refused, key)
	for at, open := range f.loopback {
		if open {
			c.freed(service.Frontend{Addr: at, Protocol: key.name.Protocol})
		}
	}
	if f.port != 0 {
		c.release(key, f)
	}
	f.closeBalancers()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.fronts, key)
}

// release takes the proxy port from a front that no longer listens there.
func (c *Carrier) release(key frontKey, f *front) {
	at := service.Frontend{Addr: proxyAddress(key.family, f.port), Protocol: key.name.Protocol}
	c.closing[at] = time.Now().Add(closingTime)
	c.ports.release(key, f.port)
	f.port = 0
}

func proxyAddress(family inet.Family, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(family.Unspecified(), port)
}

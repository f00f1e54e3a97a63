// Package userspace is the carrier with listeners: a front for each service port and address family, which portals lead
// to. It does not know how portals are written, nor how bytes are carried.
package userspace

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/splice"
)

// Options of a Carrier.
type Options struct {
	Core      *splice.Core
	Ports     PortRange // default DefaultPortRange
	Log       logrus.FieldLogger
	Localhost bool          // serve NodePorts at the loopback addresses too
	Linger    time.Duration // how long a front listens on that no portal leads to any more; default 10 s
}

// defaultLinger is far more than a connection takes from the rule that redirects it to the listener, a lost SYN's second
// and third try included.
const defaultLinger = 10 * time.Second

// Carrier implements dataplane.Carrier. One goroutine calls it.
type Carrier struct {
	opts      Options
	endpoints *balance.Endpoints
	ports     *proxyPorts
	lingering map[frontKey]time.Time // fronts whose proxy port is closed then

	mu     sync.Mutex // for Active: everything else is the reconcile loop's
	fronts map[frontKey]*front
}

func keys(name service.PortName) [2]frontKey {
	return [2]frontKey{{name, service.IPv4}, {name, service.IPv6}}
}

// New returns a Carrier that serves nothing yet.
func New(opts Options) *Carrier {
	if opts.Ports == (PortRange{}) {
		opts.Ports = DefaultPortRange()
	}
	if opts.Linger == 0 {
		opts.Linger = defaultLinger
	}
	return &Carrier{
		opts: opts, endpoints: balance.NewEndpoints(), ports: newProxyPorts(opts.Ports), fronts: map[frontKey]*front{}, lingering: map[frontKey]time.Time{},
	}
}

// Retire closes the fronts that no portal leads to any more.
func (c *Carrier) Retire(served []service.PortName, left []service.Change) error {
	for _, name := range served {
		for _, key := range keys(name) {
			switch f := c.fronts[key]; {
			case f == nil:
			case f.led:
				f.SetGuarded(true)
			default:
				c.drop(key, f)
			}
		}
	}
	var errs []error
	for _, l := range left {
		errs = append(errs, c.leave(l))
	}
	return errors.Join(errs...)
}

// leave closes what served a service port. If it lives on without, its proxy ports linger: connections that were on their
// way when portals went elsewhere still arrive. And its NodePorts stay served at the loopback addresses, where no portal
// can lead them.
func (c *Carrier) leave(left service.Change) error {
	var errs []error
	for _, key := range keys(left.Name) {
		f := c.fronts[key]
		switch {
		case left.Port == nil && f != nil:
			c.drop(key, f)
		case left.Port != nil && (f != nil || c.hasLoopback(left.Port, key.family)):
			errs = append(errs, c.stand(key, f, left.Port))
		}
	}
	return errors.Join(errs...)
}

// stand serves what is left of a service port that others carry, with the front it has, if any.
func (c *Carrier) stand(key frontKey, f *front, p *service.Port) error {
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
	if _, since := c.lingering[key]; f.port != 0 && !since {
		f.led, c.lingering[key] = false, time.Now().Add(c.opts.Linger)
	}
	if f.idle() {
		c.drop(key, f)
	}
	return nil
}

// Sweep closes the proxy ports that have lingered long enough, and returns when the next will have.
func (c *Carrier) Sweep(context.Context) (next time.Time, err error) {
	now := time.Now()
	for key, until := range c.lingering {
		if !now.Before(until) {
			c.unlead(key, c.fronts[key])
		} else if next.IsZero() || until.Before(next) {
			next = until
		}
	}
	return next, nil
}

// ProxyPorts tells which proxy ports were opened and closed since it was last asked.
func (c *Carrier) ProxyPorts() map[portal.ProxyPort]bool { return c.ports.changes() }

// Withdraw is for the end, when portals lead past all fronts: they listen on for connections that are on their way, no longer
// at the loopback addresses, where no portal leads past them. ProxyPorts then has all proxy ports closed: rules are not to
// outlive listeners.
func (c *Carrier) Withdraw() {
	for key, f := range c.fronts {
		c.serveLoopback(f, nil)
		if f.port != 0 {
			c.ports.changed[key.proxyPort(f.port)] = false
			f.SetGuarded(false)
		}
	}
}

// Close drains every front: open connections and sessions go on, no new ones come.
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

// unlead closes the proxy port of a front, and the front if it has no other.
func (c *Carrier) unlead(key frontKey, f *front) {
	delete(c.lingering, key)
	if f.port != 0 {
		f.Unlisten(proxyAddress(key.family, f.port))
		c.ports.give(key, f.port)
		f.port = 0
	}
	if f.idle() {
		c.drop(key, f)
	}
}

// drop closes a front and gives its proxy port back.
func (c *Carrier) drop(key frontKey, f *front) {
	f.Close()
	c.forget(key, f)
}

func (c *Carrier) forget(key frontKey, f *front) {
	delete(c.lingering, key)
	if f.port != 0 {
		c.ports.give(key, f.port)
	}
	f.closeBalancers()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.fronts, key)
}

func proxyAddress(family service.IPFamily, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(family.Unspecified(), port)
}

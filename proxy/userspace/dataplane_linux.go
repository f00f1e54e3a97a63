// Package userspace is the dataplane with listeners: a front for each service port and address family, and portals that
// lead the frontends there. It does not know how portals are written, nor how bytes are carried.
package userspace

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/splice"
)

// Options of a Dataplane.
type Options struct {
	Engine    *splice.Engine
	Writer    portal.Writer
	Ports     PortRange // default DefaultPortRange
	Log       logrus.FieldLogger
	Localhost bool // serve NodePorts at the loopback addresses too

	// ForgetUDP has the kernel forget the UDP flows whose clients wrote to an address that match accepts. nil = nothing
	// is translated by the kernel.
	ForgetUDP func(ctx context.Context, match func(netip.AddrPort) bool) (int, error)
	// Serving is told of each service port that is new or changed, before anything is done for it. Default none.
	Serving func(*service.Port)
	// Contested is told of each claim of an address that another Service holds. Default none.
	Contested func(portal.Conflict)
	// Closed is told of service ports that are no longer served. Default none.
	Closed func(service.PortName)
}

// Dataplane implements proxy.Dataplane. One goroutine calls it.
type Dataplane struct {
	opts   Options
	ports  *proxyPorts
	table  *portal.Table
	known  map[service.PortName]struct{} // applied, and not yet settled as gone
	synced bool

	mu     sync.Mutex // for Active: everything else is the reconcile loop's
	fronts map[frontKey]*front
}

// frontKey is a service port in one address family.
type frontKey struct {
	name service.PortName
	ipv6 bool
}

// New returns a Dataplane that serves nothing yet.
func New(opts Options) *Dataplane {
	if opts.Ports == (PortRange{}) {
		opts.Ports = DefaultPortRange()
	}
	if opts.Serving == nil {
		opts.Serving = func(*service.Port) {}
	}
	if opts.Closed == nil {
		opts.Closed = func(service.PortName) {}
	}
	if opts.Contested == nil {
		opts.Contested = func(portal.Conflict) {}
	}
	return &Dataplane{
		opts: opts, ports: newProxyPorts(opts.Ports), table: portal.NewTable(),
		fronts: map[frontKey]*front{}, known: map[service.PortName]struct{}{},
	}
}

// Sync applies changes: fronts are opened, then portals led to them, then fronts without use closed, so that no moment
// comes in which a portal leads nowhere. A change of endpoints alone touches no portal.
func (d *Dataplane) Sync(ctx context.Context, changes []service.Change) error {
	led, errs := d.retarget(changes)
	if len(led) > 0 {
		if err := d.opts.Writer.Update(ctx, led); err != nil {
			return errors.Join(append(errs, fmt.Errorf("lead %d portals: %w", len(led), err))...)
		}
	}
	d.settle(changes)
	errs = append(errs, d.forget(ctx, led))
	return errors.Join(errs...)
}

// Resync applies the whole state.
func (d *Dataplane) Resync(ctx context.Context, ports []*service.Port) error {
	changes := d.against(ports)
	led, errs := d.retarget(changes)
	all := d.table.Portals()
	if err := d.opts.Writer.Replace(ctx, all); err != nil {
		return errors.Join(append(errs, fmt.Errorf("lead all %d portals: %w", len(all), err))...)
	}
	d.settle(changes)
	if !d.synced { // what an earlier run translated leads to ports that are others' now
		led = asChanges(all)
		d.synced = true
	}
	errs = append(errs, d.forget(ctx, led))
	return errors.Join(errs...)
}

// Audit asks the writer whether the host holds what was written.
func (d *Dataplane) Audit(ctx context.Context) error {
	if auditor, ok := d.opts.Writer.(portal.Auditor); ok {
		return auditor.Audit(ctx)
	}
	return nil
}

// Close takes the portals away and closes every front: open connections go on, no new ones come. What else the writer
// keeps on the host stays until Remove, since translated connections need it: the kernel translates none, open or not,
// once no rule asks for the tracking of connections.
func (d *Dataplane) Close(ctx context.Context) error {
	err := d.opts.Writer.Replace(ctx, nil)
	for key, f := range d.fronts {
		d.drop(key, f)
	}
	return err
}

// Remove removes every trace from the host, once open connections have ended.
func (d *Dataplane) Remove(ctx context.Context) error { return d.opts.Writer.Cleanup(ctx) }

// Active calls visit with the live connections or sessions of each service port that has any. It may be called from any
// goroutine.
func (d *Dataplane) Active(visit func(name service.PortName, live int)) {
	live := map[service.PortName]int{}
	d.mu.Lock()
	for key, f := range d.fronts {
		if n := f.Active(); n > 0 {
			live[key.name] += int(n)
		}
	}
	d.mu.Unlock()
	for name, n := range live {
		visit(name, n)
	}
}

func (d *Dataplane) keep(key frontKey, f *front) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fronts[key] = f
}

// drop closes a front and gives its proxy port back.
func (d *Dataplane) drop(key frontKey, f *front) {
	f.Close()
	d.ports.give(key.name.Protocol, f.port)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.fronts, key)
}

// against turns a whole state into changes.
func (d *Dataplane) against(ports []*service.Port) []service.Change {
	changes := make([]service.Change, 0, len(ports))
	wanted := make(map[service.PortName]struct{}, len(ports))
	for _, p := range ports {
		wanted[p.Name] = struct{}{}
		changes = append(changes, service.Change{Name: p.Name, Port: p})
	}
	for name := range d.known {
		if _, ok := wanted[name]; !ok {
			changes = append(changes, service.Change{Name: name})
		}
	}
	return changes
}

// retarget opens and updates fronts and returns where portals lead elsewhere now. A service port that cannot be served
// is an error and refuses its clients; the others are not concerned.
func (d *Dataplane) retarget(changes []service.Change) (led []portal.Change, errs []error) {
	for _, c := range changes {
		if c.Port == nil {
			moved, _ := d.table.Set(c.Name, time.Time{}, nil)
			led = append(led, moved...)
			continue
		}
		d.known[c.Name] = struct{}{}
		d.opts.Serving(c.Port)
		portals, err := d.serve(c.Port)
		if err != nil {
			errs = append(errs, err)
		}
		moved, lost := d.table.Set(c.Name, c.Port.Created, portals)
		led = append(led, moved...)
		for _, conflict := range lost {
			d.opts.Contested(conflict)
		}
	}
	return newest(led), errs
}

// settle closes the fronts that have no use any more, once portals lead elsewhere.
func (d *Dataplane) settle(changes []service.Change) {
	for _, c := range changes {
		for _, ipv6 := range []bool{false, true} {
			key := frontKey{c.Name, ipv6}
			f := d.fronts[key]
			if f == nil {
				continue
			}
			if c.Port == nil || !f.used {
				d.drop(key, f)
			}
		}
		if c.Port == nil {
			delete(d.known, c.Name)
			d.opts.Closed(c.Name)
		}
	}
}

// forget has the kernel forget UDP flows that were translated by what is no more, or not at all for want of it.
func (d *Dataplane) forget(ctx context.Context, led []portal.Change) error {
	stale := map[netip.AddrPort]struct{}{}
	nodePorts := map[uint16]struct{}{}
	for _, c := range led {
		switch {
		case c.Frontend.Protocol != service.UDP:
		case c.Frontend.Addr.Addr().IsUnspecified():
			nodePorts[c.Frontend.Addr.Port()] = struct{}{}
		default:
			stale[c.Frontend.Addr] = struct{}{}
		}
	}
	if d.opts.ForgetUDP == nil || len(stale)+len(nodePorts) == 0 {
		return nil
	}
	_, err := d.opts.ForgetUDP(ctx, func(dst netip.AddrPort) bool {
		if _, ok := stale[dst]; ok {
			return true
		}
		_, ok := nodePorts[dst.Port()]
		return ok
	})
	return err
}

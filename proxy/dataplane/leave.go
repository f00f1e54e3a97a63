package dataplane

import (
	"context"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// A daemon that ends calls Close or HandOver, and DeleteFlows when its connections have ended; nothing else after that.

// Close removes all portals. What else the writer keeps on the host stays, since open connections that it translated
// need it: the kernel translates none, open or not, once no rule asks for connection tracking.
func (d *Dataplane) Close(ctx context.Context) error {
	d.lookNow(ctx)
	for _, p := range d.table.Portals() {
		c := portal.Change{Frontend: p.Frontend}
		if _, ok := p.Target.(portal.Redirect); ok {
			c.Portal = &p
		}
		d.left = append(d.left, c)
	}
	d.closed = true
	return d.opts.Writer.Replace(ctx, nil)
}

// HandOver passes every service port of userspace mode to the kernel while no daemon runs, and returns how many it
// passed. Those that alike says the kernel cannot carry as the daemon does refuse their clients meanwhile. Their
// listeners stay open: connections may be on their way there.
func (d *Dataplane) HandOver(ctx context.Context, alike func(*service.Port) bool) (moved int, err error) {
	d.lookNow(ctx)
	d.aside.reset()
	var plans []plan
	for name, p := range d.ports {
		if by, _ := d.carriers(p); by != d.opts.Userspace {
			continue
		}
		next := d.plan(service.Change{Name: name, Port: withMode(p, service.ModeKernel)})
		if !alike(p) {
			next.portals = rejects(p)
		}
		plans = append(plans, next)
	}
	if len(plans) == 0 {
		return 0, nil
	}
	d.left, err = d.program(ctx, plans, false)
	return len(plans), err
}

// lookNow deletes the flows for which it was too early: no Sweep will, and they lead to listeners that are about to
// close.
func (d *Dataplane) lookNow(ctx context.Context) {
	d.nextLook = time.Time{}
	d.deleteStale(ctx)
}

func withMode(p *service.Port, m service.Mode) *service.Port {
	out := *p
	out.Mode = m
	return &out
}

// DeleteFlows deletes the UDP flows to listeners that are about to close.
func (d *Dataplane) DeleteFlows(ctx context.Context) error {
	if d.closed {
		return d.deleteAbandoned(ctx, d.left)
	}
	return d.deleteUDP(ctx, d.left, noReplier)
}

package dataplane

import (
	"context"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// A daemon that ends calls Close or MoveToKernel, and DeleteFlows when its connections have ended; nothing else after
// that.

// Close removes all portals. Everything else that the writer has on the host stays, since open connections that it
// translated need it: the kernel translates none, open or not, once no rule asks for connection tracking.
func (d *Dataplane) Close(ctx context.Context) error {
	d.flows.deleteNow(ctx)
	for _, p := range d.table.Portals() {
		c := portal.Change{Frontend: p.Frontend}
		if _, ok := p.Target.(portal.Redirect); ok {
			c.Portal = &p
		}
		d.left = append(d.left, c)
	}
	d.host.emptied = true
	return d.opts.Writer.Replace(ctx, nil)
}

// MoveToKernel passes every service port of userspace mode to the kernel while no daemon runs, and returns how many it
// passed. Those that alike says the kernel cannot carry as the daemon does refuse their clients meanwhile. Their
// listeners stay open: connections may be on their way there.
func (d *Dataplane) MoveToKernel(ctx context.Context, alike func(*service.Port) bool) (moved int, err error) {
	d.flows.deleteNow(ctx)
	d.quarantine.reset()
	var plans []plan
	for name, p := range d.ports {
		if by, _ := d.carriers.of(p); by != d.carriers.userspace {
			continue
		}
		next := d.planner.plan(service.Change{Name: name, Port: withMode(p, service.ModeKernel)})
		if !alike(p) {
			next.portals = rejects(p)
		}
		plans = append(plans, next)
	}
	if len(plans) == 0 {
		return 0, nil
	}
	d.left, err = d.trial.program(ctx, plans, false)
	return len(plans), err
}

func withMode(p *service.Port, m service.Mode) *service.Port {
	out := *p
	out.Mode = m
	return &out
}

// DeleteFlows deletes the UDP flows to listeners that are about to close.
func (d *Dataplane) DeleteFlows(ctx context.Context) error {
	if d.host.emptied {
		return d.flows.deleteAbandoned(ctx, d.left)
	}
	return d.flows.deleteUDP(ctx, d.left, noReplier)
}

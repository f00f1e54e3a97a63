package dataplane

import (
	"context"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// How a daemon leaves: Close or HandOver, then, when what it still carries has ended, Forget. Nothing else is called after.

// Close takes all portals away. What else the writer keeps on the host stays: open connections that it translated need
// it, since the kernel translates none, open or not, once no rule asks for the tracking of connections.
func (d *Dataplane) Close(ctx context.Context) error {
	for _, p := range d.table.Portals() {
		d.left = append(d.left, portal.Change{Frontend: p.Frontend})
	}
	return d.opts.Writer.Replace(ctx, nil)
}

// HandOver has the kernel carry every service port, for a time without the daemon, and returns how many it carried itself.
// Those of them that the kernel cannot carry alike refuse their clients meanwhile. Their listeners are left as they are:
// connections may be on their way there.
func (d *Dataplane) HandOver(ctx context.Context, alike func(*service.Port) bool) (moved int, err error) {
	d.aside.pardon()
	var plans []plan
	for name, p := range d.ports {
		if by, _ := d.carriers(p); by != d.opts.Userspace {
			continue
		}
		next := d.plan(service.Change{Name: name, Port: withMode(p, service.ModeKernel)})
		if !alike(p) {
			next.portals = refusing(p)
		}
		plans = append(plans, next)
	}
	if len(plans) == 0 {
		return 0, nil
	}
	d.left, err = d.lead(ctx, plans, false)
	return len(plans), err
}

func withMode(p *service.Port, m service.Mode) *service.Port {
	out := *p
	out.Mode = m
	return &out
}

// Forget has the kernel forget the UDP flows that lead to listeners which are about to close.
func (d *Dataplane) Forget(ctx context.Context) error { return d.forget(ctx, d.left) }

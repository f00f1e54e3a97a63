package userspace

import (
	"fmt"
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Direct lets a Writer of portals, which is made first, reach the Carrier that is made with it, where the host cannot
// redirect: fronts listen at frontends' own addresses, and the Writer knows when.
type Direct struct{ carrier *Carrier }

// NewDirect returns one for Options.Direct. Nothing may be served by it before there is a Carrier.
func NewDirect() *Direct { return &Direct{} }

// Listen is Carrier.Listen.
func (d *Direct) Listen(owner service.PortName, at netip.AddrPort) error {
	return d.carrier.Listen(owner, at)
}

// Unlisten is Carrier.Unlisten.
func (d *Direct) Unlisten(owner service.PortName, at netip.AddrPort) { d.carrier.Unlisten(owner, at) }

// Carried is Carrier.Carried.
func (d *Direct) Carried() map[netip.Addr]struct{} { return d.carrier.Carried() }

// Failed is Options.Failed.
func (d *Direct) Failed(p portal.Portal, err error) { d.carrier.opts.Failed(p, err) }

// Listen has the front of a service port listen at the address of one of its frontends. It is called with
// Options.Direct, after a Serve that returned a portal of that frontend which redirects; again, it does nothing. An
// address in use is an error that wraps EADDRINUSE.
func (c *Carrier) Listen(owner service.PortName, at netip.AddrPort) error {
	f := c.fronts.get(frontKey{owner, inet.FamilyOf(at.Addr())})
	if f == nil {
		return fmt.Errorf("listen at %s: %s is not served", at, owner)
	}
	if _, open := f.direct[at]; open {
		return nil
	}
	if err := c.sockets.listen(f, at); err != nil {
		return err
	}
	f.direct[at] = struct{}{}
	return nil
}

// Unlisten ends that. Open connections go on; sessions of UDP end.
func (c *Carrier) Unlisten(owner service.PortName, at netip.AddrPort) {
	f := c.fronts.get(frontKey{owner, inet.FamilyOf(at.Addr())})
	if f == nil {
		return
	}
	if _, open := f.direct[at]; open {
		c.sockets.unlisten(f, at)
		delete(f.direct, at)
	}
}

// Carried returns the addresses that clients of open connections and sessions dialled. They are needed until these end.
func (c *Carrier) Carried() map[netip.Addr]struct{} {
	out := map[netip.Addr]struct{}{}
	for _, live := range c.opts.Core.Snapshot() {
		out[live.OriginalDst.Addr()] = struct{}{}
	}
	return out
}

package userspace

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// Listen has the front of a service port listen at the address of one of its frontends. It is called with
// Options.Direct, after a Serve that returned a portal of that frontend which redirects; again, it does nothing. An
// address in use is an error that wraps EADDRINUSE.
func (c *Carrier) Listen(owner service.PortName, at netip.AddrPort) error {
	f := c.fronts[frontKey{owner, inet.FamilyOf(at.Addr())}]
	if f == nil {
		return fmt.Errorf("listen at %s: %s is not served", at, owner)
	}
	if _, open := f.direct[at]; open {
		return nil
	}
	if err := c.listenAgain(f, at); err != nil {
		return err
	}
	f.direct[at] = struct{}{}
	return nil
}

// closingTime is more than an engine takes to close a socket.
const closingTime = 500 * time.Millisecond

// listenAgain waits where a socket of another front, or of an earlier time, still closes.
func (c *Carrier) listenAgain(f *front, at netip.AddrPort) error {
	frontend := service.Frontend{Addr: at, Protocol: f.Name().Protocol}
	for {
		err := f.Listen(at)
		if !errors.Is(err, syscall.EADDRINUSE) || !time.Now().Before(c.closing[frontend]) {
			delete(c.closing, frontend)
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// Unlisten ends that. Open connections go on; sessions of UDP end.
func (c *Carrier) Unlisten(owner service.PortName, at netip.AddrPort) {
	f := c.fronts[frontKey{owner, inet.FamilyOf(at.Addr())}]
	if f == nil {
		return
	}
	if _, open := f.direct[at]; open {
		f.Unlisten(at)
		delete(f.direct, at)
		c.closing[service.Frontend{Addr: at, Protocol: owner.Protocol}] = time.Now().Add(closingTime)
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

package netsh

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// socket is where a portal is to be had, at one address: open if the portal redirects.
type socket struct {
	portal service.Frontend
	owner  service.PortName
	open   bool
	lost   bool // its address was gone since it was opened
	done   bool // it is as it should be
	retry
}

// socketsOf returns where a portal's frontend is to be had.
func (w *Writer) socketsOf(f service.Frontend) (out []service.Frontend) {
	if !f.Addr.Addr().IsUnspecified() {
		return []service.Frontend{f}
	}
	for _, a := range w.host.others {
		if a.Is6() == f.Addr.Addr().Is6() && w.servesNodePorts(a) {
			out = append(out, at(a, f))
		}
	}
	return out
}

// socketsAt returns the sockets of all portals at an address. None of ours ever had NodePorts.
func (w *Writer) socketsAt(a netip.Addr) (out []service.Frontend) {
	if x := w.addrs[a]; x != nil {
		out = slices.Collect(maps.Keys(x.users))
		if x.ours {
			return out
		}
	}
	for f := range w.nodePorts {
		if a.Is6() == f.Addr.Addr().Is6() {
			out = append(out, at(a, f))
		}
	}
	return out
}

func at(a netip.Addr, f service.Frontend) service.Frontend {
	return service.Frontend{Addr: netip.AddrPortFrom(a, f.Addr.Port()), Protocol: f.Protocol}
}

// servesNodePorts tells whether NodePorts are served on an address: one of the node, and not loopback or link-local.
// That of an interface without a network is tentative for ever.
func (w *Writer) servesNodePorts(a netip.Addr) bool {
	x := w.addrs[a]
	p, there := w.host.addrs[a]
	if !there || p.state != Usable || x != nil && x.ours || !a.IsGlobalUnicast() {
		return false
	}
	return len(w.served) == 0 || slices.ContainsFunc(w.served, func(p netip.Prefix) bool { return p.Contains(a) })
}

// portalAt returns the portal that has a socket. One of the address itself goes before a NodePort.
func (w *Writer) portalAt(s service.Frontend) (portal.Portal, bool) {
	if p, ok := w.portals[s]; ok {
		return p, true
	}
	if !w.servesNodePorts(s.Addr.Addr()) {
		return portal.Portal{}, false
	}
	p, ok := w.portals[at(inet.FamilyOf(s.Addr.Addr()).Unspecified(), s)]
	return p, ok
}

// closeUnwanted closes the sockets of a scope that no portal redirects to, or whose owner is another now, or whose
// address was gone.
func (w *Writer) closeUnwanted(s scope) {
	for _, f := range inOrder(s) {
		x := w.sockets[f]
		if x == nil {
			continue
		}
		p, wanted := w.portalAt(f)
		_, redirects := p.Target.(portal.Redirect)
		same := wanted && p.Owner == x.owner
		if x.open && (!same || !redirects || x.lost) {
			w.Listeners.Unlisten(x.owner, f.Addr)
			x.open = false
		}
		x.lost, x.done = false, false
		if p.Frontend != x.portal {
			w.report(x.portal, f, nil)
		}
		if !same {
			delete(w.sockets, f)
		}
	}
}

// openWanted opens the sockets of a scope that portals redirect to, and reports what is in the way of any portal.
func (w *Writer) openWanted(s scope) {
	for _, f := range inOrder(s) {
		p, wanted := w.portalAt(f)
		if !wanted {
			continue
		}
		x := w.sockets[f]
		if x == nil {
			x = &socket{}
			w.sockets[f] = x
		}
		x.portal, x.owner = p.Frontend, p.Owner
		w.settle(f, x, p, s.again)
	}
}

// settle makes a socket as it should be, or has Sweep try again.
func (w *Writer) settle(f service.Frontend, x *socket, p portal.Portal, again bool) {
	err := w.obstacle(f.Addr.Addr())
	if _, redirects := p.Target.(portal.Redirect); err == nil && redirects && (again || !x.open) {
		err = w.listen(p.Owner, f.Addr)
		x.open = err == nil
	}
	x.done = err == nil
	switch {
	case err == nil:
		x.retry = retry{}
	case errors.Is(err, errPending):
		x.retry, err = retry{}, nil
		w.wake(x.retry)
	default:
		x.failed(err)
		w.wake(x.retry)
	}
	w.report(p.Frontend, f, err)
}

// The errors of Windows sockets, by number: package syscall's names have other numbers on Windows.
const (
	errAccess       = syscall.Errno(10013)
	errInUse        = syscall.Errno(10048)
	errNotAvailable = syscall.Errno(10049)
)

// listen opens a socket. An address may be listed a moment before sockets can be bound to it.
func (w *Writer) listen(owner service.PortName, at netip.AddrPort) error {
	err := w.Listeners.Listen(owner, at)
	x := w.addrs[at.Addr()]
	switch {
	case errors.Is(err, errNotAvailable) && x != nil && time.Since(x.added) < detection:
		return errPending
	case errors.Is(err, errInUse):
		return fmt.Errorf("%w (another program has the port; netstat -abno shows which)", err)
	case errors.Is(err, errAccess):
		return fmt.Errorf("%w (the port is in a range that Windows keeps, which netsh interface ipv4 show excludedportrange "+
			"protocol=tcp, or =udp, lists; or another program has it at all addresses for itself: see netstat -abno)", err)
	}
	return err
}

func inOrder(s scope) []service.Frontend {
	return slices.SortedFunc(maps.Keys(s.sockets), service.Frontend.Compare)
}

package epoll

import (
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/splice"
)

// dialer makes sockets to endpoints. Safe for concurrent use.
type dialer struct {
	core  *splice.Core
	ports *sourcePorts
}

// connect makes a stream socket that is connected to an endpoint, or about to be (EINPROGRESS), from one of our ports
// while there are some, and as the client unless that is the zero Addr. With another error it may have made none: -1.
func (d *dialer) connect(to netip.AddrPort, as netip.Addr, now time.Duration) (fd int, errno syscall.Errno) {
	var sa sockaddr
	sa.set(to)
	for try := range portTries + 1 {
		if fd, errno = sysSocket(family(to.Addr()), unix.SOCK_STREAM); errno != 0 {
			return -1, errno
		}
		streamOptions(fd)
		d.mark(fd)
		own := try < portTries && d.bindOwn(fd, inet.FamilyOf(to.Addr()), as, now)
		if !own && as.IsValid() {
			d.showClient(fd, as)
		}
		errno = sysConnect(fd, &sa)
		if try == portTries && errno != unix.EADDRNOTAVAIL { // else there is no address to dial from, or no port at all
			d.core.Shortages().PortsCrowded(to, now)
		}
		if !own || errno != unix.EADDRNOTAVAIL {
			return fd, errno
		}
		sysClose(fd)
	}
	return -1, errno
}

// mark marks what a socket sends to an endpoint, for rules to let it pass: an endpoint that is a frontend would have
// the engine dial itself, and each of those connections another, without end.
func (d *dialer) mark(fd int) {
	if d.core.Options().Mark != 0 {
		sysSetInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int32(d.core.Options().Mark))
	}
}

// bindOwn binds a socket that is to be connected to one of our ports. False: the kernel is to choose. SO_REUSEADDR lets
// sockets to many endpoints share a port, and servers of the host listen there that set it, as nearly all do.
func (d *dialer) bindOwn(fd int, family inet.Family, as netip.Addr, now time.Duration) bool {
	switch {
	case as.IsValid():
		if setTransparent(fd, family) != 0 {
			return false
		}
	case family == inet.IPv6:
		as = netip.IPv6Unspecified()
	default:
		as = netip.IPv4Unspecified()
	}
	sysSetInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	for range portBinds {
		port := d.ports.next(now)
		if port == 0 {
			return false
		}
		var sa sockaddr
		sa.set(netip.AddrPortFrom(as, port))
		switch sysBind(fd, &sa) {
		case 0:
			return true
		case unix.EADDRINUSE, unix.EACCES:
			d.ports.busy(port)
		default:
			return false
		}
	}
	return false
}

// showClient gives a socket that is to be connected to an endpoint the client's address.
func (d *dialer) showClient(fd int, client netip.Addr) {
	if errno := bindAs(fd, client); errno != 0 {
		d.core.Shortages().NotTransparent(errno, d.core.Now())
	}
}

// shortage reports an error of a socket to an endpoint if it means one of this host.
func (d *dialer) shortage(err syscall.Errno) splice.Shortage {
	switch err {
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM,
		unix.EAGAIN: // no local port left for a UDP socket
		d.core.Options().Warn(err)
		return splice.NoResources
	case unix.EADDRNOTAVAIL: // no local port left towards this endpoint
		d.core.Options().Warn(err)
		return splice.NoPort
	}
	return splice.Enough
}

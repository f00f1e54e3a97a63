package epoll

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/splice"
)

// Listen implements Engine.
func (e *engine) Listen(f *splice.Front, at netip.AddrPort) (splice.Socket, error) {
	fd, err := bind(at, f.Name().Protocol)
	if err != nil {
		return nil, err
	}
	if f.Name().Protocol == service.UDP {
		return openUDP(e, f, fd, at.Port()), nil
	}
	return openTCP(e, f, fd), nil
}

// bind makes a listening or bound socket whose options accepted sockets inherit.
func bind(at netip.AddrPort, protocol service.Protocol) (int, error) {
	kind := unix.SOCK_STREAM
	if protocol == service.UDP {
		kind = unix.SOCK_DGRAM
	}
	fd, e := sysSocket(family(at.Addr()), kind)
	if e != 0 {
		return 0, e
	}
	if at.Addr().Is6() {
		sysSetInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if kind == unix.SOCK_STREAM {
		sysSetInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		streamOptions(fd)
	} else {
		datagramOptions(fd, service.FamilyOf(at.Addr()))
	}
	var sa sockaddr
	sa.set(at)
	if err := sysBind(fd, &sa); err != 0 {
		sysClose(fd)
		return 0, err
	}
	if kind == unix.SOCK_STREAM {
		if err := unix.Listen(fd, backlog); err != nil {
			sysClose(fd)
			return 0, err
		}
	}
	return fd, nil
}

// backlog is asked for each listener; the kernel cuts it to net.core.somaxconn (4096 by default).
const backlog = 4096

// Keepalive of both sides, in seconds: a peer that is gone is noticed within some three minutes.
const (
	keepIdle     = 60
	keepInterval = 15
)

// streamOptions are set on listeners, from which accepted sockets inherit them, and on sockets to endpoints.
func streamOptions(fd int) {
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	sysSetInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1) // an urgent byte stays in the stream
	sysSetInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepIdle)
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepInterval)
}

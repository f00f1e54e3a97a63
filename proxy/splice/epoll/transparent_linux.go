package epoll

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
)

// bindAs binds a socket to an address that is not this host's, at a port that the kernel chooses when it connects: one
// that is free towards that endpoint.
func bindAs(fd int, client netip.Addr) syscall.Errno {
	if e := setTransparent(fd, inet.FamilyOf(client)); e != 0 {
		return e
	}
	if e := sysSetInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); e != 0 {
		return e
	}
	var sa sockaddr
	sa.set(netip.AddrPortFrom(client, 0))
	return sysBind(fd, &sa)
}

// setTransparent lets a socket be bound to an address that is not this host's.
func setTransparent(fd int, family inet.Family) syscall.Errno {
	if family == inet.IPv6 {
		return sysSetInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT, 1)
	}
	return sysSetInt(fd, unix.IPPROTO_IP, unix.IP_TRANSPARENT, 1)
}

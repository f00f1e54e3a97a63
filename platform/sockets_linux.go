package platform

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/service"
)

// ListenOptions has a TCP socket, and those that it accepts, keep urgent bytes at their place in the stream.
func ListenOptions(fd uintptr, protocol service.Protocol) error {
	if protocol != service.TCP {
		return nil
	}
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_OOBINLINE, 1)
}

// DialOptions does the same for a socket that is to be connected, and marks what it sends unless mark is 0: that needs
// CAP_NET_ADMIN.
func DialOptions(fd uintptr, protocol service.Protocol, mark uint32) error {
	if err := ListenOptions(fd, protocol); err != nil || mark == 0 {
		return err
	}
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(mark))
}

// BindTransparent binds a socket that is to be connected to an address that is not this host's, at a port that the
// kernel chooses when it connects. Needs CAP_NET_ADMIN or CAP_NET_RAW.
func BindTransparent(fd uintptr, addr netip.Addr) error {
	level, option := unix.IPPROTO_IP, unix.IP_TRANSPARENT
	var to unix.Sockaddr = &unix.SockaddrInet4{Addr: as4(addr)}
	if service.FamilyOf(addr) == service.IPv6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT
		to = &unix.SockaddrInet6{Addr: addr.As16()}
	}
	if err := unix.SetsockoptInt(int(fd), level, option, 1); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
		return err
	}
	return unix.Bind(int(fd), to)
}

func as4(addr netip.Addr) [4]byte {
	if addr.Is4() {
		return addr.As4()
	}
	return [4]byte{}
}

// Receive reads from a TCP socket without blocking. The urgent byte of a sender is read by itself: urgent. 0 bytes
// without an error are the end of the stream.
func Receive(fd uintptr, buf []byte) (n int, urgent bool, err error) {
	if at, err := unix.IoctlGetInt(int(fd), unix.SIOCATMARK); err == nil && at != 0 {
		buf, urgent = buf[:1], true
	}
	n, err = unix.Read(int(fd), buf) // which does not block: no socket of package net does
	return max(n, 0), urgent && n == 1, err
}

// PendingError takes the pending error of a socket, nil if there is none.
func PendingError(fd uintptr) error {
	errno, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil || errno == 0 {
		return err
	}
	return unix.Errno(errno)
}

// SendUrgent writes one byte to a TCP socket as its urgent one, without blocking.
func SendUrgent(fd uintptr, b []byte) error {
	return unix.Sendto(int(fd), b, unix.MSG_OOB|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
}

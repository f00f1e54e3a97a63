package load

import (
	"iter"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

const backlog = 4096

// listen opens a non-blocking socket at an address: a listener when kind is SOCK_STREAM.
func listen(kind int, at netip.AddrPort) (int, error) {
	fd, err := unix.Socket(family(at.Addr()), kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if kind == unix.SOCK_DGRAM {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20) // as much as the host allows
	} else {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // inherited by accepted sockets
	}
	err = unix.Bind(fd, sockaddr(at))
	if err == nil && kind == unix.SOCK_STREAM {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}

// accepted yields the connections that wait, non-blocking.
func accepted(ln int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for {
			fd, _, e := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(ln), 0, 0, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
			if e != 0 || !yield(int(fd)) {
				return
			}
		}
	}
}

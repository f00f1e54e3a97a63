package load

import (
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Calls that cannot block go by RawSyscall: there is nothing to tell the scheduler about.

func read(fd int, b []byte) (int, error) {
	n, _, e := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return outcome(n, e)
}

func send(fd int, b []byte) (int, error) {
	n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	return outcome(n, e)
}

func closeFD(fd int) { _, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

func outcome(n uintptr, e syscall.Errno) (int, error) {
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// kind has the attributes of a socket that follow from the protocol and the address.
func kind(proto string) (int, error) {
	switch proto {
	case "tcp":
		return unix.SOCK_STREAM, nil
	case "udp":
		return unix.SOCK_DGRAM, nil
	}
	return 0, fmt.Errorf("protocol %q: want tcp or udp", proto)
}

func family(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// poll is an epoll descriptor and the room for its events.
type poll struct {
	fd     int
	events [256]unix.EpollEvent
}

func newPoll() (*poll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	return &poll{fd: fd}, nil
}

// add watches fd; its events carry key.
func (p *poll) add(fd, key int, events uint32) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(key)})
}

// wait returns the events that have come; none after ms milliseconds or a signal.
func (p *poll) wait(ms int) ([]unix.EpollEvent, error) {
	n, err := unix.EpollWait(p.fd, p.events[:], ms)
	if err == unix.EINTR {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("wait for events: %w", err)
	}
	return p.events[:n], nil
}

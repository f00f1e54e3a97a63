package splicetest

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// silent is an address that does not answer: the kernel drops what comes to a listener whose queue is full.
func silent(t testing.TB) netip.AddrPort {
	t.Helper()
	fd, at := fullListener(t)
	t.Cleanup(func() { unix.Close(fd) })
	return at
}

// fullListener is a listener whose queue is full.
func fullListener(t testing.TB) (fd int, at netip.AddrPort) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	any := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err := errors.Join(unix.Bind(fd, any), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at = netip.AddrPortFrom(netip.MustParseAddr(loopback), uint16(bound.(*unix.SockaddrInet4).Port))
	for range 2 { // the kernel takes one more than the backlog
		if c, err := net.DialTimeout("tcp", at.String(), 200*time.Millisecond); err == nil {
			t.Cleanup(func() { c.Close() })
		}
	}
	return fd, at
}

package splicetest

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/windows"
)

// silent is an address that does not answer: Wine's kernel drops what comes to a listener whose queue is full. That of
// Windows refuses it, after two seconds.
func silent(t testing.TB) netip.AddrPort {
	t.Helper()
	fd, err := windows.Socket(windows.AF_INET, windows.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { windows.Closesocket(fd) })
	any := &windows.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err := errors.Join(windows.Bind(fd, any), windows.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	bound, err := windows.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(netip.MustParseAddr(loopback), uint16(bound.(*windows.SockaddrInet4).Port))
	for range 3 {
		c, err := net.DialTimeout("tcp", at.String(), 200*time.Millisecond)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return at
		}
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
	}
	t.Skip("this system answers even where the queue of a listener is full")
	return at
}

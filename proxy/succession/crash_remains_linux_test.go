package succession

import (
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/succession/handover"
)

// A daemon that dies while it closes a listener leaves a socket that refuses everybody: the next one does not take it.
func TestRemainsThatListen(t *testing.T) {
	r := &remains{}
	var fds []int
	for i, kind := range []int{unix.SOCK_STREAM, unix.SOCK_STREAM, unix.SOCK_DGRAM} {
		fd, err := unix.Socket(unix.AF_INET, kind, 0)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
		}
		if err == nil && kind == unix.SOCK_STREAM {
			err = unix.Listen(fd, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
		r.sockets = append(r.sockets, handover.Socket{Kind: handover.Front, Name: service.PortName{Name: "cart"},
			Address: netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(11000+i))})
	}
	r.files = slices.Clone(fds)
	if err := unix.Shutdown(fds[0], unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	left := r.listeners()
	defer closeFiles(left.Files)
	if !slices.Equal(left.Files, fds[1:]) || !slices.Equal(left.Sockets, r.sockets[1:]) {
		t.Errorf("descriptors %v at %v, of %v", left.Files, left.Sockets, fds)
	}
	if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GETFD, 0); err == nil {
		t.Error("the other one stays open")
	}
}

package daemon

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/handover"
	"github.com/portald/portald/proxy/service"
)

// What a predecessor listened at is kept for whose it was: a new service port takes neither the socket nor, in the
// other family, the number, until the take-over is complete.
func TestInheritedPorts(t *testing.T) {
	cart := service.PortName{Name: "cart", Protocol: service.UDP}
	fresh := service.PortName{Name: "a", Protocol: service.UDP}
	i := newInheritance("")
	socket, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	six, four := netip.MustParseAddrPort("[::]:11004"), netip.MustParseAddrPort("0.0.0.0:11004")
	front := handover.Socket{Kind: handover.Front, Name: cart, Address: six}
	i.add(&handover.Estate{Sockets: []handover.Socket{front}, Files: []int{socket}})
	for _, at := range []netip.AddrPort{four, six} {
		if _, err := i.listen(fresh, at); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a new one listens at %s: %v", at, err)
		}
	}
	if got, err := i.listen(cart, six); err != nil || got.File == nil {
		t.Errorf("its own: %+v, %v", got, err)
	}
	i.begin()
	if _, err := i.listen(fresh, four); err != nil {
		t.Errorf("after the take-over: %v", err)
	}
}

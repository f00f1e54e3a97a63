package succession

import (
	"errors"
	"net/netip"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/succession/handover"
)

// inheritsCart returns what a daemon has that took over the socket of the service port cart; another one is new.
func inheritsCart(t *testing.T, family int, at netip.AddrPort) (s *State, cart, another service.PortName) {
	t.Helper()
	socket, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	cart = service.PortName{Name: "cart", Protocol: inet.UDP}
	another = service.PortName{Name: "a", Protocol: inet.UDP}
	s = NewState("")
	front := handover.Socket{Kind: handover.Front, Name: cart, Address: at}
	s.add(&handover.Inheritance{Sockets: []handover.Socket{front}, Files: []int{socket}})
	return s, cart, another
}

// A predecessor's listeners are kept for their service ports: a new service port takes neither the socket nor, in the
// other family, the number, until the take-over is complete.
func TestInheritedPorts(t *testing.T) {
	six, four := netip.MustParseAddrPort("[::]:11004"), netip.MustParseAddrPort("0.0.0.0:11004")
	s, cart, fresh := inheritsCart(t, unix.AF_INET6, six)
	for _, at := range []netip.AddrPort{four, six} {
		if _, err := s.Inherited.Listen(fresh, at); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a new one listens at %s: %v", at, err)
		}
	}
	if got, err := s.Inherited.Listen(cart, six); err != nil || got.File == nil {
		t.Errorf("its own: %+v, %v", got, err)
	}
	s.Begin()
	if _, err := s.Inherited.Listen(fresh, four); err != nil {
		t.Errorf("after the take-over: %v", err)
	}
}

// The number of a socket that its service port did not go on with, as one that the kernel carries by now, stays its own
// for a while: the kernel may still lead flows there.
func TestInheritedPortThatNobodyTook(t *testing.T) {
	four, six := netip.MustParseAddrPort("0.0.0.0:11004"), netip.MustParseAddrPort("[::]:11004")
	s, cart, fresh := inheritsCart(t, unix.AF_INET, four)
	s.Begin()
	for _, at := range []netip.AddrPort{four, six} {
		if _, err := s.Inherited.Listen(fresh, at); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("another listens at %s: %v", at, err)
		}
		if got, err := s.Inherited.Listen(cart, at); err != nil || got.File != nil {
			t.Errorf("its own, at %s: %+v, %v", at, got, err)
		}
	}
	s.Inherited.files[service.Frontend{Addr: four, Protocol: inet.UDP}].free = time.Now().Add(-1)
	if _, err := s.Inherited.Listen(fresh, four); err != nil {
		t.Errorf("later: %v", err)
	}
}

// A daemon that is told to end before its loop has noticed that another one serves the node notices at the end.
func TestOustedWhenTheLoopHasEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.sock")
	lock, err := handover.TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	s := NewState(path)
	s.locked(lock)
	s.serve()
	o := NewOwnership(nil, s)
	if o.LoopEnded() {
		t.Error("ousted by nobody")
	}
	other, err := handover.Oust(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if !o.LoopEnded() {
		t.Error("it has not noticed")
	}
	select {
	case <-o.Lost():
	default:
		t.Error("nobody is told")
	}
	s.release()
}

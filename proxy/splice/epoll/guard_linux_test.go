package epoll

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// The death of this process resets a connection for as long as nobody else has its sockets: whoever gets them may not
// know that their close would be a reset. A stream that has ended is left to the kernel.
func TestGuard(t *testing.T) {
	m, err := NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	opts := splice.Options{Account: quota.NewAccount(quota.Budget{Kept: 100})}
	r := newRigWith(t, opts, func(c *splice.Core) (*engine, error) { return open(c, 1, m, noKeeper{}) })
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	client := dialTCP(t, r.open(t, serveTCP(t, func(*net.TCPConn) { <-hold })))
	state := func(want record.ConnState) {
		t.Helper()
		eventually(t, func() bool {
			all := r.Snapshot()
			return len(all) == 1 && all[0].State == want
		}, string(want))
	}
	state(record.StateOpen)
	var sockets []int // duplicates
	_, err = r.Moving().HandOver(t.Context(), func(all []*splice.Departure) (int, error) {
		for _, fd := range all[0].Files {
			dup, err := unix.Dup(fd)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Close(dup) })
			sockets = append(sockets, dup)
		}
		wantGuarded(t, "departed", sockets, false, false)
		return 0, errors.New("it stays")
	})
	if err == nil {
		t.Fatal("it was handed over")
	}
	guarded := func(what string, client, endpoint bool) {
		t.Helper()
		eventually(t, func() bool { return slices.Equal(areGuarded(t, sockets), []bool{client, endpoint}) }, what)
	}
	guarded("it stays", true, true)
	r.Moving().Keep(0, false, 1, func(some []*splice.Kept) {
		wantGuarded(t, "kept", some[0].Files, false, false)
		for _, fd := range some[0].Files {
			unix.Close(fd)
		}
	})
	guarded("it is kept", false, false)
	r.Moving().Unkept()
	guarded("its keeper is gone", true, true)
	client.CloseWrite()
	state(record.StateHalfClosed)
	guarded("the client has ended its stream", true, false)
	r.Moving().Unkept()
	r.Cut(r.Snapshot()[0].ID)
	r.record(t)
}

func wantGuarded(t *testing.T, when string, sockets []int, client, endpoint bool) {
	t.Helper()
	if got := areGuarded(t, sockets); !slices.Equal(got, []bool{client, endpoint}) {
		t.Errorf("%s: %v", when, got)
	}
}

// areGuarded tells of which sockets the close is a reset.
func areGuarded(t *testing.T, sockets []int) (are []bool) {
	t.Helper()
	for _, fd := range sockets {
		linger, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LINGER) // the first of the two
		if err != nil {
			t.Fatal(err)
		}
		are = append(are, linger != 0)
	}
	return are
}

// It does so from the first moment on: the original destination is looked up before anything is done for a client.
func TestGuardFromTheFirst(t *testing.T) {
	asked := make(chan bool, 1)
	opts := splice.Options{OriginalDst: func(fd int, _ inet.Family) (netip.AddrPort, error) {
		linger, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LINGER)
		asked <- err == nil && linger != 0
		return netip.AddrPort{}, errors.New("nobody knows")
	}}
	dialTCP(t, newRig(t, opts).open(t, serveTCP(t, func(*net.TCPConn) {})))
	if !<-asked {
		t.Error("the connection is not guarded")
	}
	l, err := bind(inet.TCP, netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer sysClose(l)
	if !areGuarded(t, []int{l})[0] {
		t.Error("what a listener accepts is guarded a moment later")
	}
}

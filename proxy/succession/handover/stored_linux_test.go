package handover

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/proxy/splice"
)

// filledStore stores a hand-over of so many connections, as one without a successor does, and returns what it gave. It
// may end before Done.
func filledStore(t *testing.T, conns int, finish bool) (d *Stored, given []*splice.Departure) {
	t.Helper()
	d, err := NewStored()
	must(t, err)
	s, err := d.Successor(own)
	if errors.Is(err, syscall.EPERM) {
		must(t, d.Close())
		netnstest.Missing(t, "needs NET_ADMIN: %v", err)
	}
	must(t, err)
	defer s.Close()
	for i := range conns {
		given = append(given, connection(t, uint64(i)))
	}
	at := Socket{Kind: Front, Address: netip.MustParseAddrPort("10.0.0.1:80")}
	must(t, s.Sockets([]Socket{at}, []int{descriptor(t)}))
	taken, err := s.Begun(Begun{LastID: 9}, time.Nanosecond)
	must(t, err)
	if !slices.Equal(taken, []bool{true}) {
		t.Errorf("taken: %v", taken)
	}
	n, err := s.Give(netip.AddrPort{})(given)
	must(t, err)
	if n != conns {
		t.Errorf("%d of %d are given", n, conns)
	}
	must(t, s.Resume(at))
	if finish {
		must(t, s.Done(0))
	}
	return d, given
}

// A stored hand-over is there for a successor that starts later: far more than a socket holds by default.
func TestStored(t *testing.T) {
	noLeak(t)
	const conns = 2000
	d, given := filledStore(t, conns, true)
	p, err := d.Predecessor(own)
	must(t, err)
	e, err := p.Begin(1 << 20)
	must(t, err)
	t.Cleanup(func() { closeAll(e.Files) })
	if len(e.Sockets) != 1 || e.LastID != 9 {
		t.Errorf("begun with %+v", e)
	}
	var h recordingTaker
	resumed := 0
	to := h.taker(t)
	to.Batch = func(b *Batch) {
		if b.Resume != nil {
			resumed++
		}
	}
	left, err := p.Serving([]bool{true}, to)
	must(t, err)
	if left != 0 || resumed != 1 || len(h.conns) != conns {
		t.Fatalf("%d connections came, %d are left, %d sockets resumed", len(h.conns), left, resumed)
	}
	for i, c := range h.conns {
		if !reflect.DeepEqual(c, given[i].Conn) || !same(t, h.files[2*i], given[i].Files[0]) {
			t.Fatalf("connection %d came as %+v, was %+v", i, c, given[i].Conn)
		}
	}
}

// A daemon that was killed while it filled the store has died: what it gave is there, and nobody waits for the rest.
func TestStoredOfOneThatWasKilled(t *testing.T) {
	noLeak(t)
	d, given := filledStore(t, 3, false)
	p, err := d.Predecessor(own)
	must(t, err)
	e, err := p.Begin(1 << 20)
	must(t, err)
	t.Cleanup(func() { closeAll(e.Files) })
	var h recordingTaker
	to := h.taker(t)
	to.Batch = func(*Batch) {}
	if _, err := p.Serving([]bool{true}, to); !errors.Is(err, ErrDied) || len(h.conns) != len(given) {
		t.Errorf("%d connections came, then %v", len(h.conns), err)
	}
}

// Another installation's deposit is not taken, and ends.
func TestStoredOfAnother(t *testing.T) {
	noLeak(t)
	d, _ := filledStore(t, 1, true)
	other := own
	other.Installation = "another"
	if _, err := d.Predecessor(other); err == nil || !strings.Contains(err.Error(), "another") {
		t.Error(err)
	}
}

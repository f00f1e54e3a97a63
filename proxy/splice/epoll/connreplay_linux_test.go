package epoll

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// noKeeper keeps nothing.
type noKeeper struct{}

func (noKeeper) PipeOpened(uint32, int, int)  {}
func (noKeeper) PipeClosed(uint32)            {}
func (noKeeper) KeepsPipe(uint32) (_, _ bool) { return true, true }
func (noKeeper) Ended(uint32)                 {}

// A connection whose bytes are kept for another endpoint is not kept for a successor, and one that a keeper has got
// stays with its endpoint.
func TestKeptOrReplayed(t *testing.T) {
	m, err := NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	opts := splice.Options{
		Policy:  service.Policy{RetryOn: service.RetryConnect | service.RetryReset},
		Account: quota.NewAccount(quota.Budget{Kept: 100}),
	}
	r := newRigWith(t, opts, func(c *splice.Core) (*engine, error) { return open(c, 1, m, noKeeper{}) })
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	at := r.open(t, serveTCP(t, func(*net.TCPConn) { <-hold }))
	silent, asking := dialTCP(t, at), dialTCP(t, at)
	ask := asking.LocalAddr().(*net.TCPAddr).AddrPort()
	asking.Write([]byte("hello"))
	eventually(t, func() bool { return r.Stats().ReplayBytes > 0 }, "bytes are kept")
	eventually(t, func() bool {
		open := 0
		for _, l := range r.Snapshot() {
			if l.State == record.StateOpen {
				open++
			}
		}
		return open == 2
	}, "both are open")
	for range 2 {
		var kept []netip.AddrPort
		r.Moving().Keep(0, true, 100, func(some []*splice.Kept) {
			for _, k := range some {
				kept = append(kept, k.State.Client)
				for _, fd := range k.Files {
					sysClose(fd)
				}
			}
		})
		if len(kept) != 1 || kept[0] == ask {
			t.Fatalf("%v are kept, of which %v asks", kept, ask)
		}
	}
	silent.Write([]byte("too late"))
	time.Sleep(20 * time.Millisecond)
	asking.SetLinger(0)
	asking.Close()
	r.record(t)
	if n := r.Stats().ReplayBytes; n != 0 {
		t.Errorf("%d bytes are kept of a connection that stays with its endpoint", n)
	}
}

// Events that were received of an endpoint which the connection has left, and of a dial that this one had overtaken,
// are not about the next dials. Those of the client and of others stay.
func TestEventsOfFormerDials(t *testing.T) {
	l, c, other := &loop{}, &conn{}, &conn{}
	left := []readiness{{h: c, tag: tagClient}, {h: other, tag: tagDial}}
	copy(l.batch[:], append(left, readiness{h: c, tag: tagDial}, readiness{h: c, tag: tagDial + uint8(otherDial)}))
	l.ignore(c, tagDial)
	for i, e := range l.batch[:4] {
		if stays := e.h != handler(nobody{}); stays != (i < len(left)) {
			t.Errorf("event %d stays: %t", i, stays)
		}
	}
}

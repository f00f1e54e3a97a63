package splice

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/payload"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
)

// idleEngine is an engine without sockets.
type idleEngine struct{}

func (idleEngine) Listen(*Front, netip.AddrPort) (Socket, error) { return idleSocket{}, nil }
func (idleEngine) Run(context.Context) error                     { return nil }
func (idleEngine) Silent() time.Duration                         { return 0 }

type idleSocket struct{}

func (idleSocket) Drain()                 {}
func (idleSocket) Close()                 {}
func (idleSocket) Sessions() SessionTable { return nil }

// idleOwner is an engine's connection without sockets.
type idleOwner struct{}

func (idleOwner) Post(func(time.Duration) Step)                {}
func (idleOwner) Interface() int                               { return 0 }
func (idleOwner) Detach(tell func(*Departure))                 { tell(nil) }
func (idleOwner) Keep(tell func(*Kept))                        { tell(nil) }
func (idleOwner) SetKeepalive(record.Side, Keepalive)          {}
func (idleOwner) ObservePayload(*payload.Keeper)               {}
func (idleOwner) Unkept()                                      {}
func (idleOwner) InFlight() bool                               { return false }
func (idleOwner) Unresponsive(record.Side, time.Duration) bool { return false }
func (idleOwner) TCPInfo(tell func(_, endpoint record.TCPInfo)) {
	tell(record.TCPInfo{Known: true}, record.TCPInfo{Known: true})
}

// carrying returns a core with so many open connections.
func carrying(t testing.TB, conns int) *Core {
	t.Helper()
	return carryingWithin(t, quota.Budget{}, conns)
}

func carryingWithin(t testing.TB, b quota.Budget, conns int) *Core {
	t.Helper()
	c, err := New(Options{Account: quota.NewAccount(b)}, func(*Core) (Engine, error) { return idleEngine{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	at, endpoint := netip.MustParseAddrPort("10.96.0.10:80"), netip.MustParseAddrPort("10.1.1.1:8080")
	name := service.PortName{Namespace: "shop", Name: "cart", Protocol: inet.TCP}
	view := &View{
		Port:      &service.Port{},
		Exposures: []service.Exposure{{Frontend: service.Frontend{Addr: at, Protocol: inet.TCP}}},
		Endpoints: []service.Endpoint{{Addr: endpoint, Pod: "shop/cart-a"}},
	}
	picker := &countingPicker{}
	picker.set(view.Endpoints)
	f, err := c.Open(name, Pickers{picker}, view, at)
	if err != nil {
		t.Fatal(err)
	}
	for i := range conns {
		client := netip.AddrFrom4([4]byte{10, 2, byte(i >> 12), byte(i >> 4)})
		conn := &Conn{}
		conn.Accept(f, idleOwner{}, netip.AddrPortFrom(client, uint16(1024+i%16)), c.Now())
		if s := conn.Admit(at, c.Now()); s.Kind != StepDial {
			t.Fatalf("step %+v", s)
		}
		conn.Dialling(0, netip.MustParseAddrPort("10.1.1.254:18044"))
		conn.Connected(0, c.Now())
	}
	return c
}

const many = 100_000

// busyOwner answers on another goroutine, and notes how many wait for an answer at a time.
type busyOwner struct {
	idleOwner
	waiting, most *atomic.Int64
}

func (o busyOwner) TCPInfo(tell func(client, endpoint record.TCPInfo)) {
	if n := o.waiting.Add(1); n > o.most.Load() { // one goroutine at a time reads
		o.most.Store(n)
	}
	go func() {
		o.waiting.Add(-1)
		tell(record.TCPInfo{Known: true}, record.TCPInfo{})
	}()
}

// However many are read, by however many callers: an event loop has no more than a batch to do at a time.
func TestReadTCPInfoInBatches(t *testing.T) {
	var owner busyOwner
	owner.waiting, owner.most = &atomic.Int64{}, &atomic.Int64{}
	c := carrying(t, 10*tcpInfoBatch+1)
	for _, m := range c.open() {
		m.(connMember).Conn.owner = owner
	}
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			all := c.Snapshot()
			c.ReadTCPInfo(t.Context(), all)
			for _, l := range all {
				if !l.ClientTCP.Known {
					t.Errorf("connection %d is left out", l.ID)
				}
			}
		})
	}
	callers.Wait()
	if n := owner.most.Load(); n > tcpInfoBatch {
		t.Errorf("%d wait at a time, want %d at most", n, tcpInfoBatch)
	}
}

// All that are open are shown once each.
func TestSnapshotOfMany(t *testing.T) {
	seen := map[uint64]bool{}
	c := carrying(t, many)
	all := c.Snapshot()
	c.ReadTCPInfo(t.Context(), all)
	for _, l := range all {
		seen[l.ID] = true
		if l.State != record.StateOpen || l.Endpoint.Pod != "shop/cart-a" || !l.ClientTCP.Known {
			t.Fatalf("%+v", l)
		}
	}
	if len(seen) != many {
		t.Errorf("%d connections of %d are shown", len(seen), many)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	c := carrying(b, many)
	for b.Loop() {
		if n := len(c.Snapshot()); n != many {
			b.Fatalf("%d connections of %d are shown", n, many)
		}
	}
}

// An engine that answers at once: what splice itself takes to ask for all.
func BenchmarkReadTCPInfo(b *testing.B) {
	c := carrying(b, many)
	all := c.Snapshot()
	for b.Loop() {
		c.ReadTCPInfo(b.Context(), all)
	}
}

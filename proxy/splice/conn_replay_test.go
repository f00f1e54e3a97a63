package splice

import (
	"bytes"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
)

// replayingFront opens a front of a Service whose connections may go to another endpoint.
func replayingFront(t *testing.T, c *Core, name string) *Front {
	t.Helper()
	at, picker := netip.MustParseAddrPort("10.96.0.10:80"), &countingPicker{}
	picker.set([]service.Endpoint{
		{Addr: netip.MustParseAddrPort("10.1.1.1:8080")}, {Addr: netip.MustParseAddrPort("10.1.1.2:8080")},
	})
	view := &View{
		Port:      &service.Port{Policy: service.Policy{RetryOn: service.RetryConnect | service.RetryReset}},
		Exposures: []service.Exposure{{Frontend: service.Frontend{Addr: at, Protocol: inet.TCP}}},
	}
	f, err := c.Open(service.PortName{Namespace: "shop", Name: name, Protocol: inet.TCP}, Pickers{picker}, view, at)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// established returns a connection of client number i to the first endpoint.
func established(t *testing.T, f *Front, i int) *Conn {
	t.Helper()
	c, now := &Conn{}, f.core.Now()
	c.Accept(f, idleOwner{}, netip.AddrPortFrom(
		netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1024), now)
	if s := c.Admit(netip.MustParseAddrPort("10.96.0.10:80"), now); s.Kind != StepDial {
		t.Fatalf("step %+v", s)
	}
	if s := c.Connected(0, now); s.Kind != StepCarry || s.Again != nil || !c.replay.Possible() {
		t.Fatalf("step %+v", s)
	}
	return c
}

func replayCore(t *testing.T) *Core {
	t.Helper()
	c, err := New(Options{}, func(*Core) (Engine, error) { return idleEngine{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A Service whose 10,000 connections each send all that may be kept takes 8 MiB less a part for others, and another
// Service still has its requests kept. All is given back.
func TestReplayMemoryOfGreedyService(t *testing.T) {
	core := replayCore(t)
	greedy, modest := replayingFront(t, core, "greedy"), replayingFront(t, core, "modest")
	var all []*Conn
	load := make([]byte, 8<<10)
	for i := range 10_000 {
		c := established(t, greedy, i)
		for range maxReplay / len(load) {
			c.replay.Sent(load)
		}
		all = append(all, c)
	}
	s := core.Stats()
	t.Logf("%d bytes are kept", s.ReplayBytes)
	if s.ReplayBytes < 6<<20 || s.ReplayBytes > 8<<20*8/9 || s.Limits.ReplayBytes != 8<<20 {
		t.Errorf("%d bytes are kept, of at most %d", s.ReplayBytes, s.Limits.ReplayBytes)
	}
	for i := range 50 {
		c := established(t, modest, i)
		if !c.replay.Sent(load[:500]) {
			t.Fatalf("the request of client %d is not kept", i)
		}
		all = append(all, c)
	}
	for i, c := range all {
		switch i % 3 {
		case 0:
			c.FirstByte(core.Now())
		case 1:
			c.replay.Forget()
		}
		c.Abort(record.OutcomeCut)
		c.Closed(core.Now())
	}
	if n := core.Stats().ReplayBytes; n != 0 {
		t.Errorf("%d bytes are kept of nobody", n)
	}
}

// The bytes sent are kept in their order, and take no more than twice their size in memory.
func TestReplayKeepsWhatWasSent(t *testing.T) {
	core := replayCore(t)
	c := established(t, replayingFront(t, core, "cart"), 1)
	var sent []byte
	for n := 1; len(sent)+n <= maxReplay; n = n*3/2 + 1 {
		load := bytes.Repeat([]byte{byte(n)}, n)
		if !c.replay.Sent(load) {
			t.Fatalf("%d bytes are not kept", len(sent)+n)
		}
		clear(load) // it was a buffer of the engine
		sent = append(sent, bytes.Repeat([]byte{byte(n)}, n)...)
		if kept := core.Stats().ReplayBytes; kept < int64(len(sent)) || kept > max(leastReplay, 2*int64(len(sent))) {
			t.Errorf("%d bytes take %d", len(sent), kept)
		}
	}
	if s := c.Broken(record.Endpoint, syscall.ECONNRESET, false); s.Kind != StepDial || !s.Drop {
		t.Fatalf("step %+v", s)
	}
	if s := c.Connected(0, core.Now()); !bytes.Equal(s.Again, sent) {
		t.Errorf("%d bytes are sent again, of %d", len(s.Again), len(sent))
	}
	if c.replay.Sent(make([]byte, maxReplay)) || c.replay.Possible() {
		t.Error("more is kept than may be")
	}
	if s := c.Broken(record.Endpoint, syscall.ECONNRESET, false); s.Kind != StepEnd {
		t.Errorf("step %+v", s)
	}
	c.Closed(core.Now())
	if n := core.Stats().ReplayBytes; n != 0 {
		t.Errorf("%d bytes are kept of nobody", n)
	}
}

// An endpoint that closes a connection has failed to answer what was sent, or to serve it at all; but not if the client
// has left it idle.
func TestReplayNotOfIdleConnection(t *testing.T) {
	for _, tc := range []struct {
		sent  string
		after time.Duration
		want  StepKind
	}{
		{"", idleAfter / 2, StepDial}, {"", 2 * idleAfter, StepHalfClose}, {"x", 2 * idleAfter, StepDial},
	} {
		core := replayCore(t)
		c := established(t, replayingFront(t, core, "cart"), 1)
		c.replay.Sent([]byte(tc.sent))
		s := c.EOF(record.Endpoint, core.Now()+tc.after)
		if s.Kind != tc.want || c.replay.Possible() != (tc.want == StepDial) {
			t.Errorf("%q, %s: step %+v", tc.sent, tc.after, s)
		}
	}
}

// A connection without room in a buffer for what the next endpoint does not take at once ends with its endpoint.
func TestNoReplayWithoutBuffers(t *testing.T) {
	core := replayCore(t)
	c := established(t, replayingFront(t, core, "cart"), 1)
	c.replay.Sent([]byte("hello"))
	for range quota.DefaultBuffers {
		core.account.Buffers.Take()
	}
	s := c.Broken(record.Endpoint, syscall.ECONNRESET, false)
	if s.Kind != StepEnd || c.life.result.ended.Outcome != record.OutcomeEndpointReset {
		t.Errorf("step %+v", s)
	}
}

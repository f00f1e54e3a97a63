package splice

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/proxy/service"
)

// under has the front serve the same with another policy of its service port.
func (r *rig) under(f *Front, p service.Policy) {
	view := f.present().View
	view.Port = &service.Port{Policy: p}
	f.Retarget(&view)
}

// endsIdle tells whether a connection is ended for its silence within some time.
func endsIdle(t testing.TB, c *net.TCPConn, within time.Duration) bool {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(within))
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, syscall.ECONNRESET)
}

// greet has a connection carried, so that what changes afterwards finds it open.
func greet(t testing.TB, c *net.TCPConn) {
	t.Helper()
	c.Write([]byte("x"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

// A service port's own policy goes before the daemon's, which may change; open connections keep what they began with.
func TestPolicy(t *testing.T) {
	r := newRig(t, Options{})
	live := serveTCP(t, "127.0.0.1", echo)
	short, long := service.Policy{Idle: 80 * time.Millisecond}, 400*time.Millisecond
	f, at := r.open(t, service.TCP, "127.0.0.1", live)
	begun := dialTCP(t, at)
	greet(t, begun)
	r.SetPolicy(short)
	if !endsIdle(t, dialTCP(t, at), 5*time.Second) {
		t.Error("a new connection does not know the new default")
	}
	if endsIdle(t, begun, long) {
		t.Error("an open connection changed its policy")
	}
	begun.Close()
	r.under(f, service.Policy{Idle: service.Never})
	if endsIdle(t, dialTCP(t, at), long) {
		t.Error("the service port's own policy is not heard")
	}
	r.SetPolicy(service.Policy{})
	r.under(f, short)
	if !endsIdle(t, dialTCP(t, at), 5*time.Second) {
		t.Error("the service port's own policy is not heard")
	}
	r.under(f, service.Policy{})
	if endsIdle(t, dialTCP(t, at), long) {
		t.Error("the default of a default is an idle timeout")
	}
}

// A half-closed connection that may be silent for ever outlives the idle timeout as well.
func TestHalfCloseNever(t *testing.T) {
	r := newRig(t, Options{Policy: service.Policy{Idle: 50 * time.Millisecond, HalfClose: service.Never}})
	_, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", func(c *net.TCPConn) {
		io.Copy(io.Discard, c)
		time.Sleep(300 * time.Millisecond)
		c.Write([]byte("late"))
	}))
	c := dialTCP(t, at)
	c.CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "late" {
		t.Errorf("got %q, %v", got, err)
	}
}

// The patience with UDP sessions is that of the moment, for those that are open too.
func TestUDPIdleChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*rig, *Front)
	}{
		{"by the daemon's settings", func(r *rig, _ *Front) { r.SetPolicy(service.Policy{UDPIdle: 50 * time.Millisecond}) }},
		{"by the Service's", func(r *rig, f *Front) { r.under(f, service.Policy{UDPIdle: 50 * time.Millisecond}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Options{Policy: service.Policy{UDPIdle: service.Never}})
			f, at := r.open(t, service.UDP, "127.0.0.1", named(t, "a"))
			ask(t, dialUDP(t, at), "x")
			select {
			case rec := <-r.records:
				t.Fatalf("a session that may be silent for ever ended: %+v", rec)
			case <-time.After(200 * time.Millisecond):
			}
			c.change(r, f)
			if rec := r.record(t); rec.Outcome != OutcomeOK || rec.How != Timeout || rec.Duration > 2*time.Second {
				t.Errorf("record %+v", rec)
			}
			r.under(f, service.Policy{UDPIdle: 50 * time.Millisecond})
			r.under(f, service.Policy{UDPIdle: service.Never})
			ask(t, dialUDP(t, at), "y")
			select {
			case rec := <-r.records:
				t.Errorf("a session that may be silent for ever ended: %+v", rec)
			case <-time.After(200 * time.Millisecond):
			}
		})
	}
}

// Of many clients that come at once exactly as many as may are served, and places are free again afterwards.
func TestConnectionLimit(t *testing.T) {
	const most, clients = 10, 40
	r := newRig(t, Options{})
	f, at := r.open(t, service.TCP, "127.0.0.1", serveTCP(t, "127.0.0.1", echo))
	r.under(f, service.Policy{MaxConnections: most})
	served := make(chan net.Conn, clients)
	for range clients {
		go func() {
			c, err := net.Dial("tcp", at.String())
			if err == nil {
				c.SetDeadline(time.Now().Add(10 * time.Second))
				c.Write([]byte("x"))
				_, err = io.ReadFull(c, make([]byte, 1))
			}
			if err != nil {
				c = nil
			}
			served <- c
		}()
	}
	var open []net.Conn
	for range clients {
		if c := <-served; c != nil {
			open = append(open, c)
		}
	}
	if len(open) != most || f.Active() != most {
		t.Fatalf("%d of %d are served, %d are live", len(open), most, f.Active())
	}
	for range clients - most {
		if rec := r.record(t); rec.Outcome != OutcomeLimit || rec.ClosedBy != Proxy || rec.How != Reset || len(rec.Attempts) != 0 {
			t.Fatalf("record %+v", rec)
		}
	}
	wantReset(t, at)
	r.record(t)
	open[0].Close()
	if rec := r.record(t); rec.Outcome != OutcomeOK {
		t.Errorf("record %+v", rec)
	}
	greet(t, dialTCP(t, at))
	for _, c := range open {
		c.Close()
	}
}

// A client more than may be has no session; those that are go on.
func TestUDPConnectionLimit(t *testing.T) {
	r := newRig(t, Options{Policy: service.Policy{MaxConnections: 1, UDPIdle: 200 * time.Millisecond}})
	f, at := r.open(t, service.UDP, "127.0.0.1", named(t, "a"))
	one, two := dialUDP(t, at), dialUDP(t, at)
	ask(t, one, "1")
	two.Write([]byte("2"))
	rec := r.record(t)
	if rec.Outcome != OutcomeLimit || rec.Client != two.LocalAddr().(*net.UDPAddr).AddrPort() || len(rec.Attempts) != 0 || f.Active() != 1 {
		t.Errorf("%d live, record %+v", f.Active(), rec)
	}
	ask(t, one, "3")
	if rec := r.record(t); rec.Outcome != OutcomeOK || rec.BytesFromClient != 2 {
		t.Errorf("record %+v", rec)
	}
	if got := ask(t, two, "4"); got != "a 4" {
		t.Errorf("got %q", got)
	}
}

// Defaults are complete: nothing is left open, whatever is set.
func TestPolicyIsComplete(t *testing.T) {
	e, err := New(Options{Policy: service.Policy{HalfClose: time.Second}}, OpenEpoll(1))
	if err != nil {
		t.Fatal(err)
	}
	defer e.engine.(*epollEngine).closeLoops()
	got := newPlan(&View{Port: &service.Port{Policy: service.Policy{MaxConnections: 5}}}, e.policy.Load()).policy
	if !slices.Equal(got.ConnectTimeouts, service.DefaultPolicy().ConnectTimeouts) || got.HalfClose != time.Second || got.Idle != service.Never ||
		got.UDPIdle != time.Minute || got.MaxConnections != 5 || got.ClientAddress != service.AddressNode {
		t.Errorf("got %+v", got)
	}
}

// A shorter patience holds for the next session too when the last one under the longer patience has ended.
func TestUDPIdleShortened(t *testing.T) {
	r := newRig(t, Options{Policy: service.Policy{UDPIdle: time.Hour}})
	a, b := named(t, "a"), named(t, "b")
	f, at := r.open(t, service.UDP, "127.0.0.1", a, b)
	ask(t, dialUDP(t, at), "x")
	f.Retarget(viewOf(at, service.UDP, []netip.AddrPort{b})) // which ends the session
	r.record(t)
	r.SetPolicy(service.Policy{UDPIdle: 50 * time.Millisecond})
	ask(t, dialUDP(t, at), "y")
	if rec := r.record(t); rec.Outcome != OutcomeOK || rec.How != Timeout {
		t.Errorf("record %+v", rec)
	}
}

package splice

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/proxy/service"
)

// named answers each datagram with its own name.
func named(t testing.TB, name string) netip.AddrPort {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := pc.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			pc.WriteTo([]byte(name+" "+string(buf[:n])), from)
		}
	}()
	return pc.LocalAddr().(*net.UDPAddr).AddrPort()
}

func dialUDP(t testing.TB, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends one datagram and returns the answer.
func ask(t testing.TB, c *net.UDPConn, question string) string {
	t.Helper()
	if _, err := c.Write([]byte(question)); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 1<<16)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatalf("no answer to %q: %v", question, err)
	}
	return string(buf[:n])
}

// A datagram that no portal led is nobody's, while no rule sees to that too.
func TestUDPUnguarded(t *testing.T) {
	r := newRig(t, Options{
		Policy: service.Policy{UDPIdle: 50 * time.Millisecond},
		OriginalDstUDP: func(_, _ netip.AddrPort) (netip.AddrPort, error) {
			return netip.AddrPort{}, errors.New("not translated")
		},
	})
	endpoint := serveUDP(t, "127.0.0.1")
	f, at := r.open(t, service.UDP, "127.0.0.1", endpoint)
	f.Retarget(viewOf(netip.MustParseAddrPort("10.96.0.10:53"), service.UDP, []netip.AddrPort{endpoint}))
	for _, guarded := range []bool{false, true, false} {
		f.SetGuarded(guarded)
		c, err := net.Dial("udp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		want := OutcomeNotPortal
		if guarded {
			want = OutcomeOK
		}
		if rec := r.record(t); rec.Outcome != want {
			t.Errorf("guarded %t: %s, want %s", guarded, rec.Outcome, want)
		}
		c.Close()
	}
}

func TestUDPSessions(t *testing.T) {
	r := newRig(t, Options{})
	a, b := named(t, "a"), named(t, "b")
	_, at := r.open(t, service.UDP, "127.0.0.1", a, b)
	one, two := dialUDP(t, at), dialUDP(t, at)
	for range 3 { // a client stays with its endpoint, another one goes to the next
		if got := ask(t, one, "x"); got != "a x" {
			t.Errorf("got %q", got)
		}
		if got := ask(t, two, "y"); got != "b y" {
			t.Errorf("got %q", got)
		}
	}
}

// A session whose endpoint was taken away picks anew at its client's next datagram.
func TestUDPRepin(t *testing.T) {
	r := newRig(t, Options{})
	a, b := named(t, "a"), named(t, "b")
	f, at := r.open(t, service.UDP, "127.0.0.1", a, b)
	c := dialUDP(t, at)
	if got := ask(t, c, "1"); got != "a 1" {
		t.Fatalf("got %q", got)
	}
	f.pickers[service.ClusterScope].(*ring).set(b)
	f.Retarget(viewOf(at, service.UDP, []netip.AddrPort{b}))
	if rec := r.record(t); rec.Outcome != OutcomeEndpointRemoved || rec.Endpoint.Addr != a {
		t.Errorf("record %+v", rec)
	}
	if got := ask(t, c, "2"); got != "b 2" {
		t.Errorf("got %q", got)
	}
}

// An endpoint where nobody listens is passed over, and the first datagram is not lost.
func TestUDPRetry(t *testing.T) {
	r := newRig(t, Options{Policy: service.Policy{UDPIdle: 100 * time.Millisecond}})
	gone, live := refusing(t), named(t, "live")
	_, at := r.open(t, service.UDP, "127.0.0.1", gone, live)
	if got := ask(t, dialUDP(t, at), "hello"); got != "live hello" {
		t.Errorf("got %q", got)
	}
	rec := r.record(t)
	if len(rec.Attempts) != 2 || rec.Attempts[0].Err != "connection refused" || rec.Attempts[1].Err != "" || rec.Endpoint.Addr != live {
		t.Errorf("record %+v", rec)
	}
}

// An endpoint that dies in mid-session is found out by the next datagram, which then goes elsewhere.
func TestUDPEndpointDies(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 100)
		n, from, _ := pc.ReadFrom(buf)
		pc.WriteTo(buf[:n], from)
		pc.Close()
	}()
	r := newRig(t, Options{})
	_, at := r.open(t, service.UDP, "127.0.0.1", pc.LocalAddr().(*net.UDPAddr).AddrPort(), named(t, "live"))
	c := dialUDP(t, at)
	ask(t, c, "1")
	for deadline := time.Now().Add(5 * time.Second); ; {
		c.Write([]byte("2"))
		c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		buf := make([]byte, 100)
		if n, err := c.Read(buf); err == nil && strings.HasPrefix(string(buf[:n]), "live") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the session never moved")
		}
	}
	if rec := r.record(t); rec.Outcome != OutcomeEndpointReset || rec.ClosedBy != Endpoint {
		t.Errorf("record %+v", rec)
	}
}

// The least recently used session makes room.
func TestUDPSessionLimit(t *testing.T) {
	r := newRig(t, Options{UDPSessions: 2})
	_, at := r.open(t, service.UDP, "127.0.0.1", named(t, "a"))
	one, two, three := dialUDP(t, at), dialUDP(t, at), dialUDP(t, at)
	ask(t, one, "1")
	ask(t, two, "2")
	ask(t, one, "3")
	ask(t, three, "4")
	rec := r.record(t)
	if rec.Outcome != OutcomeLimit || rec.Client != two.LocalAddr().(*net.UDPAddr).AddrPort() {
		t.Errorf("record %+v", rec)
	}
}

func TestUDPRefusals(t *testing.T) {
	r := newRig(t, Options{})
	live := named(t, "a")
	f, at := r.open(t, service.UDP, "127.0.0.1", live)
	f.Retarget(viewOf(netip.MustParseAddrPort("10.96.0.10:53"), service.UDP, []netip.AddrPort{live}))
	c := dialUDP(t, at)
	c.Write([]byte("x"))
	c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := c.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an answer came: %v", err)
	}
	if rec := r.record(t); rec.Outcome != OutcomeNotPortal {
		t.Errorf("record %+v", rec)
	}
}

func TestUDPClose(t *testing.T) {
	r := newRig(t, Options{})
	f, at := r.open(t, service.UDP, "127.0.0.1", named(t, "a"))
	c := dialUDP(t, at)
	ask(t, c, "x")
	f.Close()
	if rec := r.record(t); rec.Outcome != OutcomeServiceRemoved || rec.BytesFromClient != 1 || rec.BytesFromEndpoint != 3 {
		t.Errorf("record %+v", rec)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := c.Write([]byte("x")); errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the socket is still there")
		}
	}
	if r.Stats().Sessions != 0 {
		t.Errorf("stats %+v", r.Stats())
	}
}

package splice

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portald/portald/proxy/service"
)

// slowNamed answers as named does, but questions that begin with "slow" only once answer is called.
func slowNamed(t testing.TB, name string) (at netip.AddrPort, answer func()) {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	due := make(chan struct{})
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := pc.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			say := []byte(name + " " + string(buf[:n]))
			if !strings.HasPrefix(string(buf[:n]), "slow") {
				pc.WriteTo(say, from)
				continue
			}
			go func() {
				<-due
				pc.WriteTo(say, from)
			}()
		}
	}()
	return pc.LocalAddr().(*net.UDPAddr).AddrPort(), func() { close(due) }
}

// hear waits for an answer to what was asked before.
func hear(t testing.TB, c *net.UDPConn) string {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 1<<16)
	n, err := c.Read(buf)
	if err != nil {
		t.Errorf("no answer came: %v", err)
	}
	return string(buf[:n])
}

// askSlowly has so many clients ask what is answered later.
func askSlowly(t testing.TB, at netip.AddrPort, n int) (clients []*net.UDPConn) {
	t.Helper()
	for range n {
		c := dialUDP(t, at)
		c.Write([]byte("slow"))
		clients = append(clients, c)
	}
	return clients
}

func hearAll(t testing.TB, clients []*net.UDPConn, want string) {
	t.Helper()
	for _, c := range clients {
		if got := hear(t, c); got != want {
			t.Fatalf("got %q", got)
		}
	}
}

// turn has a UDP front have one endpoint.
func (f *Front) turn(at, to netip.AddrPort) {
	f.pickers[service.ClusterScope].(*ring).set(to)
	f.Retarget(viewOf(at, service.UDP, []netip.AddrPort{to}))
}

// sessions waits until there are so many.
func (r *rig) sessions(t testing.TB, n int64) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); r.Stats().Sessions != n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions, want %d", r.Stats().Sessions, n)
		}
	}
}

// Sessions that wait for an answer outlive a flood of others that have theirs.
func TestUDPWaitsThroughFlood(t *testing.T) {
	r := newRig(t, Options{UDPSessions: 60})
	pod, answer := slowNamed(t, "pod")
	_, at := r.open(t, service.UDP, "127.0.0.1", pod)
	slow := askSlowly(t, at, 20)
	r.sessions(t, 20)
	for range 600 {
		c := dialUDP(t, at)
		ask(t, c, "x")
		c.Close()
	}
	answer()
	hearAll(t, slow, "pod slow")
}

// An endpoint that leaves the list still answers what it was asked; what is asked next goes elsewhere, at once.
func TestUDPAnswerOfLeavingEndpoint(t *testing.T) {
	r := newRig(t, Options{})
	old, answer := slowNamed(t, "old")
	other := named(t, "new")
	f, at := r.open(t, service.UDP, "127.0.0.1", old)
	first, second := dialUDP(t, at), dialUDP(t, at)
	first.Write([]byte("slow"))
	second.Write([]byte("slow"))
	r.sessions(t, 2)
	f.turn(at, other)
	for deadline := time.Now().Add(5 * time.Second); f.Active() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the sessions do not leave")
		}
	}
	if got := ask(t, second, "x"); got != "new x" {
		t.Errorf("got %q", got)
	}
	answer()
	for _, c := range []*net.UDPConn{first, second} {
		if got := hear(t, c); got != "old slow" {
			t.Errorf("got %q", got)
		}
	}
	for range 2 {
		if rec := r.record(t); rec.Outcome != OutcomeEndpointRemoved || rec.BytesFromEndpoint == 0 {
			t.Errorf("record %+v", rec)
		}
	}
	r.sessions(t, 1)
}

// Sessions that leave make room for those that wait for an answer.
func TestUDPWaitsThroughChange(t *testing.T) {
	r := newRig(t, Options{UDPSessions: 60})
	old := named(t, "old")
	pod, answer := slowNamed(t, "new")
	f, at := r.open(t, service.UDP, "127.0.0.1", old)
	for range 50 {
		ask(t, dialUDP(t, at), "x")
	}
	f.turn(at, pod)
	slow := askSlowly(t, at, 40)
	for range 50 + 40 - 54 { // one client may have 54 of 60
		if rec := r.record(t); rec.Outcome != OutcomeLimit || rec.Endpoint.Addr != old {
			t.Fatalf("record %+v", rec)
		}
	}
	answer()
	hearAll(t, slow, "new slow")
}

// A drain waits for answers that are under way, and takes no new client.
func TestUDPDrain(t *testing.T) {
	r := newRig(t, Options{})
	pod, answer := slowNamed(t, "pod")
	f, at := r.open(t, service.UDP, "127.0.0.1", pod)
	served, waiting, late := dialUDP(t, at), dialUDP(t, at), dialUDP(t, at)
	ask(t, served, "x")
	waiting.Write([]byte("slow"))
	r.sessions(t, 2)
	f.Drain()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		ctx, cancel := timeout(t, 30*time.Second)
		defer cancel()
		r.Drain(ctx)
	}()
	if got := ask(t, served, "y"); got != "pod y" {
		t.Errorf("got %q", got)
	}
	late.Write([]byte("x"))
	late.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := late.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a new client was served: %v", err)
	}
	select {
	case <-drained:
		t.Error("an answer was not waited for")
	default:
	}
	answer()
	if got := hear(t, waiting); got != "pod slow" {
		t.Errorf("got %q", got)
	}
	select {
	case <-drained:
	case <-time.After(4 * time.Second):
		t.Error("the drain did not end with the last answer")
	}
	r.stop()
	for range 2 {
		if rec := r.record(t); rec.Outcome != OutcomeServiceRemoved {
			t.Errorf("record %+v", rec)
		}
	}
	if n := r.Stats().Descriptors; n != 0 {
		t.Errorf("%d descriptors are left", n)
	}
}

// A drain waits for answers of endpoints that were taken away before it.
func TestUDPDrainAfterChange(t *testing.T) {
	r := newRig(t, Options{})
	pod, answer := slowNamed(t, "pod")
	f, at := r.open(t, service.UDP, "127.0.0.1", pod)
	waiting := dialUDP(t, at)
	waiting.Write([]byte("slow"))
	r.sessions(t, 1)
	f.Retarget(viewOf(at, service.UDP, nil))
	f.Drain()
	time.AfterFunc(200*time.Millisecond, answer)
	ctx, cancel := timeout(t, 30*time.Second)
	defer cancel()
	r.Drain(ctx)
	r.stop()
	if got := hear(t, waiting); got != "pod slow" {
		t.Errorf("got %q", got)
	}
}

// Sessions that leave make room in turn: those that have their answer, before those that were there earlier and wait.
func TestUDPWaitsWhileLeaving(t *testing.T) {
	r := newRig(t, Options{UDPSessions: 60})
	old, answer := slowNamed(t, "old")
	other := named(t, "new")
	f, at := r.open(t, service.UDP, "127.0.0.1", old)
	slow := askSlowly(t, at, 20)
	r.sessions(t, 20)
	f.turn(at, other)
	for range 25 {
		ask(t, dialUDP(t, at), "x")
	}
	f.turn(at, old)
	slow = append(slow, askSlowly(t, at, 30)...)
	for range 20 + 25 + 30 - 54 { // one client may have 54 of 60
		if rec := r.record(t); rec.Outcome != OutcomeLimit || rec.Endpoint.Addr != other {
			t.Fatalf("record %+v", rec)
		}
	}
	answer()
	hearAll(t, slow, "old slow")
}

// Endpoints come and go all the time, while clients ask and endpoints take a moment to answer: every answer arrives.
func TestUDPAnswersWhileEndpointsChange(t *testing.T) {
	r := newRig(t, Options{})
	pods := []netip.AddrPort{tardy(t), tardy(t), tardy(t)}
	f, at := r.open(t, service.UDP, "127.0.0.1", pods...)
	var clients sync.WaitGroup
	var lost, answers atomic.Int64
	done := make(chan struct{})
	for range 20 {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
				if err != nil {
					t.Error(err)
					return
				}
				c.SetDeadline(time.Now().Add(5 * time.Second))
				c.Write([]byte("x"))
				if _, err := c.Read(make([]byte, 10)); err != nil {
					lost.Add(1)
				}
				answers.Add(1)
				c.Close()
			}
		})
	}
	ring := f.pickers[service.ClusterScope].(*ring)
	for i := range 60 {
		list := []netip.AddrPort{pods[i%3], pods[(i+1)%3]}
		ring.set(list...)
		f.Retarget(viewOf(at, service.UDP, list))
		time.Sleep(20 * time.Millisecond)
	}
	close(done)
	clients.Wait()
	if n := answers.Load(); lost.Load() > 0 || n < 500 {
		t.Errorf("%d of %d answers were lost", lost.Load(), n)
	}
}

// tardy echoes what it is sent after a moment.
func tardy(t testing.TB) netip.AddrPort {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	go func() {
		for {
			buf := make([]byte, 100)
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			time.AfterFunc(5*time.Millisecond, func() { pc.WriteTo(buf[:n], from) })
		}
	}()
	return pc.LocalAddr().(*net.UDPAddr).AddrPort()
}

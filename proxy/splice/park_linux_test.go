package splice

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portald/portald/proxy/service"
)

// slowHost answers questions when it is let, and says how many wait.
type slowHost struct {
	let   chan struct{}
	asked atomic.Int32
}

func (h *slowHost) wait() bool {
	h.asked.Add(1)
	<-h.let
	return false
}

func (h *slowHost) waitFor(t *testing.T, asked int32) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); h.asked.Load() < asked; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d questions, want %d", h.asked.Load(), asked)
		}
	}
}

// slow is an engine of one loop whose host takes its time for every question.
func slow(t *testing.T) (*rig, *slowHost) {
	h := &slowHost{let: make(chan struct{})}
	r := newRigOf(t, 1, Options{
		Inside: func(netip.Addr, int) bool { return h.wait() }, Returns: func(_, _ netip.Addr) bool { return h.wait() },
	})
	return r, h
}

// asking opens a front that has a question for every client.
func (r *rig) asking(t *testing.T, protocol service.Protocol, p *service.Port, endpoints ...netip.AddrPort) netip.AddrPort {
	t.Helper()
	f, at := r.open(t, protocol, "127.0.0.1", endpoints...)
	view := viewOf(at, protocol, endpoints)
	view.Port, view.Exposures[0].Kind = p, service.NodePort
	f.pickers[service.NodeScope] = f.pickers[service.ClusterScope]
	f.Retarget(view)
	return at
}

func askers() map[string]*service.Port {
	return map[string]*service.Port{
		"transparent": {Policy: service.Policy{ClientAddress: service.AddressTransparent}},
		"local":       {ExternalLocal: true},
		"both":        {ExternalLocal: true, Policy: service.Policy{ClientAddress: service.AddressTransparent}},
	}
}

// While the host takes its time for a connection, all others of the loop go on; and then it is carried as any.
func TestQuestionsWaitAlone(t *testing.T) {
	for name, p := range askers() {
		t.Run(name, func(t *testing.T) {
			r, h := slow(t)
			echoing := serveTCP(t, "127.0.0.1", echo)
			at := r.asking(t, service.TCP, p, echoing)
			udp := r.asking(t, service.UDP, p, named(t, "a"))
			_, other := r.open(t, service.TCP, "127.0.0.1", echoing)

			waiting, sending := dialTCP(t, at), dialUDP(t, udp)
			waiting.Write([]byte("early"))
			sending.Write([]byte("one"))
			sending.Write([]byte("two"))
			h.waitFor(t, 1)
			for range 10 {
				c := dialTCP(t, other)
				c.Write([]byte("hello"))
				if _, err := c.Read(make([]byte, 5)); err != nil {
					t.Fatalf("another Service's connection: %v", err)
				}
			}
			close(h.let)
			buf := make([]byte, 100)
			if n, err := waiting.Read(buf); err != nil || string(buf[:n]) != "early" {
				t.Errorf("the one that waited: %q, %v", buf[:n], err)
			}
			for _, want := range []string{"a one", "a two"} {
				if n, err := sending.Read(buf); err != nil || string(buf[:n]) != want {
					t.Errorf("the datagram that waited: %q, %v, want %q", buf[:n], err, want)
				}
			}
		})
	}
}

// What waits for an answer when the engine ends is cut and recorded.
func TestEndWhileAsked(t *testing.T) {
	r, h := slow(t)
	at := r.asking(t, service.TCP, askers()["transparent"], serveTCP(t, "127.0.0.1", echo))
	udp := r.asking(t, service.UDP, askers()["local"], named(t, "a"))
	dialTCP(t, at)
	h.waitFor(t, 1)
	dialUDP(t, udp).Write([]byte("one"))
	for r.Stats().Sessions == 0 {
		time.Sleep(time.Millisecond)
	}
	ended := make(chan struct{})
	go func() {
		r.stop()
		close(ended)
	}()
	for range 2 {
		if rec := r.record(t); rec.Outcome != OutcomeCut {
			t.Errorf("record %+v", rec)
		}
	}
	close(h.let)
	<-ended
	if s := r.Stats(); s.Connections != 0 || s.Sessions != 0 {
		t.Errorf("left: %+v", s)
	}
}

// An endpoint that goes while the host is asked is not sent to; the datagram goes to another.
func TestEndpointGoesWhileAsked(t *testing.T) {
	r, h := slow(t)
	gone, live := named(t, "gone"), named(t, "live")
	p := askers()["transparent"]
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(21000+nextPort.Add(1)%8000))
	endpoints := &ring{list: []netip.AddrPort{gone}}
	view := viewOf(at, service.UDP, []netip.AddrPort{gone})
	view.Port = p
	f, err := r.Open(service.PortName{Protocol: service.UDP}, Pickers{endpoints}, view, at)
	if err != nil {
		t.Fatal(err)
	}
	c := dialUDP(t, at)
	c.Write([]byte("x"))
	h.waitFor(t, 1)
	endpoints.set(live)
	now := viewOf(at, service.UDP, []netip.AddrPort{live})
	now.Port = p
	f.Retarget(now)
	close(h.let)
	buf := make([]byte, 100)
	if n, err := c.Read(buf); err != nil || string(buf[:n]) != "live x" {
		t.Errorf("got %q, %v", buf[:n], err)
	}
	r.stop()
	endpoints.wantLeases(t, []error{context.Canceled, nil}, true)
}

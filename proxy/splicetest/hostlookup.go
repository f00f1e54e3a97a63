package splicetest

import (
	"io"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func hostLookupScenarios() []scenario {
	return []scenario{
		{name: "QuestionsStallNoOther", run: questionsStallNoOther},
		{name: "EndWhileAsked", run: endWhileAsked},
		{name: "EndpointGoesWhileAsked", run: endpointGoesWhileAsked},
	}
}

// slowHost answers the lookups of the options IsLocal and Returns once let is closed.
type slowHost struct {
	t     *trial
	let   chan struct{}
	asked atomic.Int32
}

func (h *slowHost) wait() bool {
	h.asked.Add(1)
	<-h.let
	return false
}

func (h *slowHost) waitForLookup() {
	h.t.Helper()
	h.t.eventually("a lookup is under way", func() bool { return h.asked.Load() > 0 })
}

// startSlow is start with a host that takes its time for every lookup.
func (t *trial) startSlow() (*dataPath, *slowHost) {
	h := &slowHost{t: t, let: make(chan struct{})}
	return t.start(splice.Options{
		IsLocal: func(netip.Addr, int) bool { return h.wait() },
		Returns: func(_, _ netip.Addr, _ int) bool { return h.wait() },
	}), h
}

var (
	asksReturns = service.Port{Policy: service.Policy{ClientAddress: service.AddressTransparent}}
	asksIsLocal = service.Port{ExternalLocal: true}
	asksBoth    = service.Port{ExternalLocal: true, Policy: service.Policy{ClientAddress: service.AddressTransparent}}
)

// serveAsking opens a front that looks up every client on its host.
func serveAsking(d *dataPath, protocol inet.Protocol, p service.Port, endpoint netip.AddrPort) *front {
	d.t.Helper()
	return d.serve(serving{protocol: protocol, port: p, kind: service.NodePort, endpoints: []netip.AddrPort{endpoint}})
}

// questionsStallNoOther: while the host takes its time for a connection, all others go on; then it is carried as any.
func questionsStallNoOther(t *trial) {
	t.sub("transparent", func(t *trial) { oneWaitsAlone(t, asksReturns) })
	t.sub("local", func(t *trial) { oneWaitsAlone(t, asksIsLocal) })
	t.sub("both", func(t *trial) { oneWaitsAlone(t, asksBoth) })
}

func oneWaitsAlone(t *trial, p service.Port) {
	d, h := t.startSlow()
	echoing := echoServer(t)
	waiting := dialTCP(t, serveAsking(d, inet.TCP, p, echoing).at)
	sending := dialUDP(t, serveAsking(d, inet.UDP, p, named(t, "a")).at)
	other := d.tcp(echoing)
	waiting.Write([]byte("early"))
	sending.Write([]byte("one"))
	sending.Write([]byte("two"))
	h.waitForLookup()
	for range 10 {
		exchange(t, dialTCP(t, other.at))
	}
	close(h.let)
	wantBytes(t, waiting, "early")
	for _, want := range []string{"a one", "a two"} {
		if got := answerTo(t, sending); got != want {
			t.Errorf("the datagram that waited: %q, want %q", got, want)
		}
	}
}

func wantBytes(t *trial, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// endWhileAsked: what waits for an answer when the engine ends is cut and recorded.
func endWhileAsked(t *trial) {
	d, h := t.startSlow()
	tcp := serveAsking(d, inet.TCP, asksReturns, echoServer(t))
	udp := serveAsking(d, inet.UDP, asksIsLocal, named(t, "a"))
	dialTCP(t, tcp.at)
	h.waitForLookup()
	dialUDP(t, udp.at).Write([]byte("one"))
	d.sessions(1)
	ended := make(chan struct{})
	go func() {
		d.stop()
		close(ended)
	}()
	for range 2 {
		if rec := d.record(); rec.Outcome != record.OutcomeCut {
			t.Errorf("record %+v", rec)
		}
	}
	close(h.let)
	<-ended
	if s := d.Stats(); s.Connections != 0 || s.Sessions != 0 {
		t.Errorf("left: %+v", s)
	}
}

// endpointGoesWhileAsked: an endpoint that goes while the host is asked is not sent to; the datagram goes to another.
func endpointGoesWhileAsked(t *trial) {
	d, h := t.startSlow()
	gone, live := named(t, "gone"), named(t, "live")
	f := serveAsking(d, inet.UDP, asksReturns, gone)
	c := dialUDP(t, f.at)
	c.Write([]byte("x"))
	h.waitForLookup()
	f.lead(live)
	close(h.let)
	if got := answerTo(t, c); got != "live x" {
		t.Errorf("got %q", got)
	}
	d.stop()
	wantLeases(t, f, wasCanceled, endedWell)
}

package splicetest

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func endpointWaitScenarios() []scenario {
	return []scenario{
		{name: "WaitsUntilEndpoint", run: waitsUntilEndpoint},
		{name: "WaitsInOrder", run: waitsInOrder},
		{name: "WaitsWhileEndpointRefuses", run: waitsWhileEndpointRefuses},
		{name: "WaitsWhileEndpointIsSilent", run: waitsWhileEndpointIsSilent},
		{name: "WaitTimesOut", run: waitTimesOut},
		{name: "WaitLimit", run: waitLimit},
		{name: "WaitingClientLeaves", run: waitingClientLeaves},
		{name: "OutsideLocalDoesNotWait", run: outsideLocalDoesNotWait},
		{name: "WaitEndsWithFront", run: waitEndsWithFront},
		{name: "WaitIsCut", run: waitIsCut},
		{name: "WaitBuffersLastDatagram", run: waitBuffersLastDatagram},
		{name: "WaitBuffersAfterRefusal", run: waitBuffersAfterRefusal, needs: Refusals},
	}
}

// waits is a Service whose clients wait for an endpoint.
func waits(most time.Duration) service.Port {
	return service.Port{Policy: service.Policy{WaitForEndpoint: most}}
}

// serveWaiting opens a front whose clients wait for an endpoint, for so long at the most.
func serveWaiting(d *dataPath, protocol inet.Protocol, most time.Duration, endpoints ...netip.AddrPort) *front {
	d.t.Helper()
	return d.serve(serving{protocol: protocol, port: waits(most), endpoints: endpoints})
}

// awaitWaiting waits until so many wait for an endpoint.
func awaitWaiting(d *dataPath, n int64) {
	d.t.Helper()
	d.t.eventually("the number of those that wait", func() bool { return d.Stats().Waiting == n })
}

// waitsUntilEndpoint: clients of a Service without endpoints wait, also one that has ended its direction, and see no
// error. It is told once that pods are needed.
func waitsUntilEndpoint(t *trial) {
	t.both(func(t *trial, host string) {
		var needs atomic.Int32
		d := t.start(splice.Options{NeedPods: func(*service.Port) { needs.Add(1) }})
		f := d.serve(serving{protocol: inet.TCP, host: host, port: waits(longest)})
		eager, open := dialTCP(t, f.at), dialTCP(t, f.at)
		eager.Write([]byte("early"))
		eager.CloseWrite()
		awaitWaiting(d, 2)
		for _, live := range d.Snapshot() {
			if live.State != record.StateWaiting {
				t.Errorf("a connection is %s", live.State)
			}
		}
		time.Sleep(20 * time.Millisecond)
		f.lead(serveTCP(t, host, echo))
		wantRest(t, eager, "early")
		wantEcho(t, open, "late")
		for range 2 {
			rec := d.record()
			if rec.Outcome != record.OutcomeOK || rec.Waited < 20*time.Millisecond || rec.Waited > rec.Connect ||
				len(rec.Attempts) != 1 || rec.Endpoint.Pod == "" {
				t.Errorf("record %+v", rec)
			}
		}
		if n := needs.Load(); n != 1 {
			t.Errorf("told %d times that pods are needed", n)
		}
		awaitWaiting(d, 0)
		wantEcho(t, dialTCP(t, f.at), "x")
		if rec := d.record(); rec.Waited != 0 {
			t.Errorf("a connection that found an endpoint waited for %s", rec.Waited)
		}
	})
}

// waitsInOrder: who came first is the first to pick, over all ports of the Service.
func waitsInOrder(t *trial) {
	const n = 12
	var servers, echoes []netip.AddrPort
	for i := range n {
		name := fmt.Sprint(i)
		servers = append(servers, serveTCP(t, loopback, func(c *net.TCPConn) { c.Write([]byte(name)) }))
		echoes = append(echoes, named(t, name))
	}
	d := t.start(splice.Options{})
	tcp, udp := serveWaiting(d, inet.TCP, longest), serveWaiting(d, inet.UDP, longest)
	var conns []*net.TCPConn
	var sockets []*net.UDPConn
	for i := range n {
		conns, sockets = append(conns, dialTCP(t, tcp.at)), append(sockets, dialUDP(t, udp.at))
		awaitWaiting(d, int64(2*i+1))
		sockets[i].Write([]byte("x"))
		awaitWaiting(d, int64(2*i+2))
	}
	tcp.lead(servers...)
	udp.lead(echoes...)
	for i := range n {
		wantRest(t, conns[i], fmt.Sprint(i))
		if got, want := answerTo(t, sockets[i]), fmt.Sprint(i, " x"); got != want {
			t.Errorf("client %d: got %q, want %q", i, got, want)
		}
	}
}

// waitsWhileEndpointRefuses: an endpoint that refuses is dialled for as long as a client waits, whatever the timeouts
// are.
func waitsWhileEndpointRefuses(t *trial) {
	at := t.refusing()
	d := t.start(timeouts(50))
	f := serveWaiting(d, inet.TCP, longest, at)
	echoLater(t, at, 400*time.Millisecond)
	wantEcho(t, dialTCP(t, f.at), "x")
	rec := d.record()
	if rec.Outcome != record.OutcomeOK || rec.Waited < 200*time.Millisecond || len(rec.Attempts) < 2 ||
		!slices.ContainsFunc(rec.Attempts, refusedIn) { // others may time out on a busy machine
		t.Errorf("record %+v", rec)
	}
}

// waitsWhileEndpointIsSilent: so is one that does not answer, until another one takes its place.
func waitsWhileEndpointIsSilent(t *trial) {
	d := t.start(timeouts(30, 30))
	f := serveWaiting(d, inet.TCP, longest, silent(t))
	c := dialTCP(t, f.at)
	awaitWaiting(d, 1)
	time.Sleep(200 * time.Millisecond)
	f.lead(echoServer(t))
	wantEcho(t, c, "x")
	rec := d.record()
	if n := len(rec.Attempts); rec.Outcome != record.OutcomeOK || n < 4 || rec.Attempts[0].Err != "timeout" {
		t.Errorf("record %+v", rec)
	}
}

// waitTimesOut: no endpoint comes. Clients are refused at the time, and the record says how long they waited.
func waitTimesOut(t *trial) {
	const most = 150 * time.Millisecond
	d := t.start(timeouts(50, 50))
	wantReset(t, serveWaiting(d, inet.TCP, most).at)
	dialUDP(t, serveWaiting(d, inet.UDP, most).at).Write([]byte("x"))
	for range 2 {
		rec := d.record()
		if rec.Outcome != record.OutcomeNoEndpoint || rec.Waited < most*9/10 || rec.Waited > rec.Duration ||
			rec.CloseType != record.Reset || len(rec.Attempts) != 0 {
			t.Errorf("record %+v", rec)
		}
	}
	refusing := serveWaiting(d, inet.TCP, most, t.refusing())
	wantReset(t, refusing.at)
	if rec := d.record(); rec.Outcome != record.OutcomeDialFailed || rec.Waited == 0 {
		t.Errorf("record %+v", rec)
	}
	d.sessions(0)
	awaitWaiting(d, 0)
}

// waitLimit: of all ports of a Service so many wait at most, and the oldest make room. Other Services have their own.
func waitLimit(t *trial) {
	const most, more = 3, 2
	d := t.start(splice.Options{Policy: service.Policy{Shares: service.Shares{MaxWaiting: most}}})
	tcp, udp := serveWaiting(d, inet.TCP, longest), serveWaiting(d, inet.UDP, longest)
	other := d.serve(serving{name: "other", port: waits(longest)})
	another := dialTCP(t, other.at)
	awaitWaiting(d, 1)
	oldest := dialTCP(t, tcp.at)
	awaitWaiting(d, 2)
	older := dialUDP(t, udp.at)
	older.Write([]byte("x"))
	awaitWaiting(d, 3)
	var conns []*net.TCPConn
	for i := range most {
		conns = append(conns, dialTCP(t, tcp.at))
		if i >= most-more {
			rec := d.record()
			want := addrOf(oldest.LocalAddr())
			if i == most-1 {
				want = addrOf(older.LocalAddr())
			}
			if rec.Outcome != record.OutcomeWaitLimit || rec.Client != want || rec.Waited == 0 {
				t.Errorf("record %+v, want that of %s", rec, want)
			}
		}
		awaitWaiting(d, min(int64(4+i), most+1))
	}
	tcp.lead(echoServer(t))
	other.lead(echoServer(t))
	for _, c := range append(conns, another) {
		wantEcho(t, c, "x")
	}
	if _, err := oldest.Read(make([]byte, 1)); !seenAsReset(t, err) {
		t.Errorf("the oldest sees %v", err)
	}
}

// waitingClientLeaves: a client that resets its connection does not wait any more, and delays none that do.
func waitingClientLeaves(t *trial) {
	d := t.start(splice.Options{})
	f := serveWaiting(d, inet.TCP, longest)
	first := dialTCP(t, f.at)
	awaitWaiting(d, 1)
	c := dialTCP(t, f.at)
	awaitWaiting(d, 2)
	awaitReader()
	reset(first)
	if rec := d.record(); rec.Outcome != record.OutcomeClientReset || rec.Waited == 0 || rec.Connect >= 0 {
		t.Errorf("record %+v", rec)
	}
	awaitWaiting(d, 1)
	f.lead(echoServer(t))
	wantEcho(t, c, "x")
}

// outsideLocalDoesNotWait: clients from outside to an external frontend with a Local policy are refused: other nodes
// may have an endpoint. Those inside wait.
func outsideLocalDoesNotWait(t *trial) {
	inside := false
	port := waits(longest)
	port.ExternalLocal, port.InternalLocal = true, true
	d := t.start(splice.Options{IsLocalKnown: func(netip.Addr, int) (bool, bool) { return inside, true }})
	external := d.serve(serving{port: port, kind: service.NodePort})
	wantReset(t, external.at)
	if rec := d.record(); rec.Outcome != record.OutcomeNoEndpoint || rec.Waited != 0 {
		t.Errorf("record %+v", rec)
	}
	inside = true
	internal := d.serve(serving{port: port})
	one, two := dialTCP(t, external.at), dialTCP(t, internal.at)
	awaitWaiting(d, 2)
	external.lead(echoServer(t))
	internal.lead(echoServer(t))
	wantEcho(t, one, "x")
	wantEcho(t, two, "x")
}

// waitEndsWithFront: nobody waits for an endpoint of a Service that is gone.
func waitEndsWithFront(t *trial) {
	d := t.start(splice.Options{})
	tcp, udp := serveWaiting(d, inet.TCP, longest), serveWaiting(d, inet.UDP, longest)
	c := dialTCP(t, tcp.at)
	dialUDP(t, udp.at).Write([]byte("x"))
	awaitWaiting(d, 2)
	tcp.Close()
	udp.Close()
	for range 2 {
		rec := d.record()
		want := record.OutcomeNoEndpoint
		if rec.Service.Protocol == inet.UDP {
			want = record.OutcomeServiceRemoved
		}
		if rec.Outcome != want {
			t.Errorf("record %+v, want %s", rec, want)
		}
	}
	if _, err := c.Read(make([]byte, 1)); !seenAsReset(t, err) {
		t.Errorf("the client sees %v", err)
	}
	awaitWaiting(d, 0)
}

// waitIsCut: what waits when the engine ends is cut and recorded.
func waitIsCut(t *trial) {
	d := t.start(splice.Options{})
	dialTCP(t, serveWaiting(d, inet.TCP, longest).at)
	dialUDP(t, serveWaiting(d, inet.UDP, longest).at).Write([]byte("x"))
	awaitWaiting(d, 2)
	d.stop()
	for range 2 {
		if rec := d.record(); rec.Outcome != record.OutcomeCut || rec.Waited == 0 {
			t.Errorf("record %+v", rec)
		}
	}
	if s := d.Stats(); s.Waiting != 0 || s.Connections != 0 || s.Sessions != 0 {
		t.Errorf("left: %+v", s)
	}
}

// waitBuffersLastDatagram: of each session the last datagram is kept, and one that is too large is not.
func waitBuffersLastDatagram(t *trial) {
	d := t.start(splice.Options{})
	f := serveWaiting(d, inet.UDP, longest)
	one, two := dialUDP(t, f.at), dialUDP(t, f.at)
	for _, c := range []*net.UDPConn{one, two} {
		for _, data := range []string{"1", "2", "last", string(make([]byte, 5000))} {
			c.Write([]byte(data))
		}
	}
	awaitWaiting(d, 2)
	t.eventually("all datagrams have come", func() bool { return d.Stats().UDPDropped == 6 })
	f.lead(named(t, "a"))
	for _, c := range []*net.UDPConn{one, two} {
		if got := answerTo(t, c); got != "a last" {
			t.Errorf("got %q", got)
		}
		wantAnswer(t, c, "next", "a next")
	}
}

// waitBuffersAfterRefusal: a datagram that no endpoint took is kept for the next one that is ready, unless a later one
// came.
func waitBuffersAfterRefusal(t *trial) {
	d := t.start(timeouts(20_000))
	f := serveWaiting(d, inet.UDP, longest, t.refusing())
	one, two := dialUDP(t, f.at), dialUDP(t, f.at)
	one.Write([]byte("first"))
	two.Write([]byte("first"))
	awaitWaiting(d, 2)
	two.Write([]byte("second"))
	t.eventually("the second has come", func() bool {
		n := int64(0)
		for _, live := range d.Snapshot() {
			n += live.BytesFromClient
		}
		return n == int64(len("firstfirstsecond"))
	})
	f.lead(named(t, "a"))
	for c, want := range map[*net.UDPConn]string{one: "a first", two: "a second"} {
		if got := answerTo(t, c); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

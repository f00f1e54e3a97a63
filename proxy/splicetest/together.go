package splicetest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func togetherScenarios() []scenario {
	return []scenario{
		{name: "AllTogether", run: allTogether},
		{name: "ReplayAfterHedge", run: replayAfterHedge},
		{name: "ReplayOfHedgesInVain", run: replayOfHedgesInVain},
		{name: "ReplayAtOwnEndpoint", run: replayAtOwnEndpoint},
		{name: "ReplayAfterRemoval", run: replayAfterRemoval},
		{name: "ReplayAfterMaxAge", run: replayAfterMaxAge},
	}
}

// together is a policy with all that a Service may ask for of its connections, for so many clients.
func together(clients int) service.Policy {
	p := service.Policy{
		RetryOn: service.RetryConnect | service.RetryReset, HedgeAfter: 20 * time.Millisecond,
		ClientAddress: service.AddressProxyV2, WaitForEndpoint: longest,
		MaxAge:  service.Age{Time: 300 * time.Millisecond, Jitter: 20},
		Removed: service.RemovedEndpoint{Do: service.CloseWhenIdle}, DeadPeer: longest,
		Shares: service.Shares{
			MaxConnectionsPerClient: clients, ConnectionRate: 100_000, ConnectionRatePerClient: 100_000,
		},
	}
	for range 16 {
		p.ConnectTimeouts = append(p.ConnectTimeouts, 200*time.Millisecond)
	}
	return p
}

// allTogether: clients that all wait at first, of a Service with every setting, whose endpoints come and go, refuse,
// are silent, and reset or end what they have read. Each client has the answer to what it has asked, one record tells
// of it, and nothing is left of any; nor do those before take anything of those that follow.
func allTogether(t *trial) {
	const clients, rounds = 150, 2
	d := t.start(splice.Options{Policy: together(clients + clients/2)})
	before := d.Stats()
	f := d.tcp()
	before.Descriptors++ // the listener's
	sets := flapping(t)
	sum := record.Record{}
	for round := range rounds {
		f.lead()
		var asking sync.WaitGroup
		for i := range clients {
			asking.Go(func() { askInFrame(t, f.at, request(sizeOf(i)), i%5 == round) })
		}
		awaitWaiting(d, clients)
		ended := make(chan struct{})
		go func() {
			asking.Wait()
			close(ended)
		}()
		f.flap(sets, ended)
		for range clients {
			wantFramed(t, d.record(), &sum)
		}
		t.eventually("nothing is left", func() bool {
			s := d.Stats()
			return s.Waiting == 0 && s.Connections == 0 && s.ReplayBytes == 0 && s.Buffers == 0 && f.Active() == 0 &&
				s.Descriptors-2*s.Pipes == before.Descriptors
		})
	}
	if hedges := sum.Ejected; sum.Replays < clients || hedges == 0 || len(d.records) > 0 {
		t.Errorf("%d replays, %d hedges, %d records more", sum.Replays, hedges, len(d.records))
	}
}

// sizeOf is how much a client asks: some more than one buffer, and all of them less than there is memory to keep it.
func sizeOf(i int) int {
	if i%10 == 0 {
		return 40_000
	}
	return 1 + 97*(i%29)
}

// flapping are sets of endpoints, each with one that answers: a connection that has tried all others ends with its
// endpoint.
func flapping(t *trial) [][]netip.AddrPort {
	a, b := framed(t), framed(t)
	resets, ends := failingInFrame(t, record.Reset), failingInFrame(t, record.FIN)
	refuses, mute := t.refusing(), silent(t)
	return [][]netip.AddrPort{
		{resets, mute, a}, {refuses, ends, b}, {mute, resets, ends, a, b}, {mute, refuses, a}, {resets, ends, mute, b},
	}
}

// flap has a front lead to one set after the other, until then.
func (f *front) flap(sets [][]netip.AddrPort, until <-chan struct{}) {
	for i := 0; ; i++ {
		f.lead(sets[i%len(sets)]...)
		select {
		case <-until:
			return
		case <-time.After(15 * time.Millisecond):
		}
	}
}

// headerSize is the size of a PROXY header of IPv4.
const headerSize = 28

// readFrame reads a PROXY header, and a request after its length.
func readFrame(t *trial, c net.Conn) (ask []byte, ok bool) {
	head := make([]byte, headerSize+4)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, false
	}
	if !bytes.HasPrefix(head, []byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11")) {
		t.Errorf("not a header: %q", head)
	}
	n := binary.BigEndian.Uint32(head[headerSize:])
	if n > 1<<16 {
		t.Errorf("a request of %d bytes", n)
		return nil, false
	}
	ask = make([]byte, n)
	_, err := io.ReadFull(c, ask)
	return ask, err == nil
}

// framed is an endpoint that answers with the request, once, and goes on until the client ends.
func framed(t *trial) netip.AddrPort {
	return serveTCP(t, loopback, func(c *net.TCPConn) {
		if ask, ok := readFrame(t, c); ok {
			c.Write(ask)
			if rest, _ := io.ReadAll(c); len(rest) > 0 {
				t.Errorf("%d bytes came after the request", len(rest))
			}
		}
	})
}

// failingInFrame is an endpoint that fails when it has a request, or a part of it.
func failingInFrame(t *trial, how record.CloseType) netip.AddrPort {
	return serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, headerSize+4))
		c.Read(make([]byte, 1000))
		if how == record.Reset {
			reset(c)
		}
	})
}

// askInFrame expects a request back, and perhaps stays until it is sent away. It may run on any goroutine.
func askInFrame(t *trial, at netip.AddrPort, ask []byte, stays bool) {
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(longest))
	c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(ask))), ask...))
	got := make([]byte, len(ask))
	if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, ask) {
		t.Errorf("got %d bytes of %d, or others: %v", n, len(ask), err)
	}
	if !stays {
		return
	}
	if n, err := c.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		t.Errorf("who stays sees %d bytes, %v", n, err)
	}
}

// wantFramed expects the record of a connection that had its answer, and adds to a sum, whose Ejected are the hedges.
func wantFramed(t *trial, rec *record.Record, sum *record.Record) {
	t.Helper()
	switch rec.Outcome {
	case record.OutcomeOK, record.OutcomeMaxAge, record.OutcomeEndpointRemoved:
	default:
		t.Errorf("record %+v", rec)
	}
	if rec.BytesFromClient != rec.BytesToEndpoint || rec.BytesFromClient != rec.BytesToClient+4 || rec.Waited == 0 ||
		rec.BytesToClient != rec.BytesFromEndpoint || rec.Attempts[len(rec.Attempts)-1].Endpoint != rec.Endpoint.Addr {
		t.Errorf("record %+v", rec)
	}
	sum.Replays += rec.Replays
	for _, a := range rec.Attempts {
		if a.Hedge {
			sum.Ejected++
		}
	}
}

// hedgedReplay is a policy under which other endpoints are dialled for either reason.
func hedgedReplay() splice.Options {
	o := replaying()
	o.Policy.HedgeAfter = 20 * time.Millisecond
	return o
}

// replayAfterHedge: an endpoint that was reached beside a slow one, and fails, is followed by another.
func replayAfterHedge(t *trial) {
	live, got := answering(t, 100)
	o := hedgedReplay()
	o.Policy.ConnectTimeouts = o.Policy.ConnectTimeouts[:2] // the last dial has no hedge, however slow it is
	d := t.start(o)
	endpoints := []netip.AddrPort{silent(t), failing(t, 100, record.Reset), live}
	f := d.tcp(endpoints...)
	wantAnswered(t, f.at, request(100), got)
	rec := d.record()
	wantReplays(t, rec, 1, 100, "overtaken", resetEarly, "")
	wantDials(t, rec, endpoints, "a overtaken, b hedge "+resetEarly+", c")
	wantNothingKept(d)
	d.stop()
	wantLeases(t, f, wasOvertaken, endedBadly, endedWell)
}

// replayOfHedgesInVain: dials that were overtaken at an endpoint say nothing of those at the next one, however late
// they end.
func replayOfHedgesInVain(t *trial) {
	const clients, times = 8, 25
	o := hedgedReplay()
	o.Policy.HedgeAfter = time.Nanosecond
	for range 8 {
		o.Policy.ConnectTimeouts = append(o.Policy.ConnectTimeouts, longest)
	}
	d := t.start(o)
	f := d.tcp(failing(t, 0, record.FIN), failing(t, 0, record.Reset), echoAtEnd(t), failing(t, 1, record.FIN),
		echoAtEnd(t))
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range times {
				sendInPieces(t, f.at, request(1000), 400)
			}
		})
	}
	wg.Wait()
	for range clients * times {
		if rec := d.record(); rec.Outcome != record.OutcomeOK || rec.BytesToEndpoint != rec.BytesFromClient {
			t.Errorf("record %+v", rec)
		}
	}
	wantNothingKept(d)
}

// replayAtOwnEndpoint: the client's own endpoint has a request twice, as it has a dial, before another does.
func replayAtOwnEndpoint(t *trial) {
	live, got := answering(t, 100)
	d := t.start(replaying())
	own := failing(t, 100, record.Reset)
	f := d.tcp(own, live)
	f.ring.keep()
	wantAnswered(t, f.at, request(100), got)
	rec := d.record()
	if a := rec.Attempts; len(a) != 2 || a[0].Endpoint != own || a[0].Times != 2 || rec.Replays != 2 ||
		rec.Endpoint.Addr != live || rec.BytesToEndpoint != 100 {
		t.Errorf("record %+v", rec)
	}
	wantNothingKept(d)
}

// replayAfterRemoval: the policy for connections of a removed endpoint does not apply to connections that have gone to
// another by then.
func replayAfterRemoval(t *trial) {
	const after = 1200 * time.Millisecond
	o := replaying()
	o.Policy.Removed = resetsAfter(after).Removed
	live, other := echoServer(t), make(chan struct{})
	d := t.start(o)
	f := d.tcp(serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 1))
		<-other
		reset(c)
	}))
	c := dialTCP(t, f.at)
	c.Write([]byte("x"))
	t.eventually("it is open", func() bool { return liveOf(d).BytesToEndpoint == 1 })
	f.lead(live)
	t.eventually("the endpoint is known to be removed", func() bool { return liveOf(d).Removed })
	close(other)
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if l := liveOf(d); l.Removed || l.Endpoint.Addr != live {
		t.Errorf("%+v", l)
	}
	d.noRecord(after + 100*time.Millisecond)
	exchange(t, c)
}

// replayAfterMaxAge: a client whose request was sent again is not cut off, however long the answer takes.
func replayAfterMaxAge(t *trial) {
	o := replaying()
	o.Policy.MaxAge = service.Age{Time: 100 * time.Millisecond}
	d := t.start(o)
	slow := serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 1))
		time.Sleep(1500 * time.Millisecond)
		c.Write([]byte("answer"))
		io.Copy(io.Discard, c)
	})
	c := dialTCP(t, d.tcp(failing(t, 1, record.Reset), slow).at)
	c.Write([]byte("?"))
	wantRest(t, c, "answer")
	if rec := d.record(); rec.Outcome != record.OutcomeMaxAge || rec.Replays != 1 {
		t.Errorf("record %+v", rec)
	}
}

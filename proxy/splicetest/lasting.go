package splicetest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func lastingScenarios() []scenario {
	return []scenario{
		{name: "RemovedEndpointKept", run: removedEndpointKept},
		{name: "RemovedEndpointClosedWhenIdle", run: removedEndpointClosedWhenIdle},
		{name: "RemovedEndpointReset", run: removedEndpointReset},
		{name: "RemovedEndpointDuringDial", run: removedEndpointDuringDial},
		{name: "RemovedEndpointIsBack", run: removedEndpointIsBack},
		{name: "RemovedEndpointIsBackAtNewFront", run: removedEndpointIsBackAtNewFront},
		{name: "RemovedEndpointOfNewFront", run: removedEndpointOfNewFront},
		{name: "LastEndpointRemoved", run: lastEndpointRemoved},
		{name: "MaxAge", run: maxAge},
		{name: "MaxAgeWaitsForAnswer", run: maxAgeWaitsForAnswer},
		{name: "MaxAgeSparesHalfClosed", run: maxAgeSparesHalfClosed},
	}
}

// resetsAfter is a policy.
func resetsAfter(t time.Duration) service.Policy {
	return service.Policy{Removed: service.RemovedEndpoint{Do: service.ResetConnections, After: t}}
}

var closesWhenIdle = service.Policy{Removed: service.RemovedEndpoint{Do: service.CloseWhenIdle}}

// removedEndpointKept: by default a connection outlives its endpoint's place in the list.
func removedEndpointKept(t *trial) {
	d := t.start(splice.Options{})
	f := d.tcp(echoServer(t))
	c := dialTCP(t, f.at)
	exchange(t, c)
	f.know()
	d.noRecord(time.Second)
	wantEcho(t, c, "x")
	if rec := d.record(); rec.Outcome != record.OutcomeOK {
		t.Errorf("record %+v", rec)
	}
}

// removedEndpointClosedWhenIdle: not before bytes have stopped moving, and then by FIN to both.
func removedEndpointClosedWhenIdle(t *trial) {
	for !closedWhenIdle(t) {
		t.Log("no byte moved for so long that it was idle: another one")
	}
}

// closedWhenIdle tells whether the connection could be kept busy.
func closedWhenIdle(t *trial) bool {
	d := t.start(splice.Options{Policy: closesWhenIdle})
	ended := make(chan error, 1)
	at := serveTCP(t, loopback, func(c *net.TCPConn) {
		_, err := io.Copy(c, c)
		ended <- err
	})
	other := echoServer(t)
	f := d.tcp(at, other)
	c := dialTCP(t, f.at)
	exchange(t, c)
	stays := dialTCP(t, f.at)
	exchange(t, stays)
	f.know(other)
	n, busy := t.keepBusy(c, time.Second)
	if !busy {
		return false
	}
	wantRest(t, c, "")
	rec := d.record()
	if rec.Outcome != record.OutcomeEndpointRemoved || rec.CloseType != record.FIN || rec.ClosedBy != record.Proxy ||
		rec.Endpoint.Addr != at || rec.BytesToClient != n+1 {
		t.Errorf("record %+v", rec)
	}
	if err := <-ended; err != nil {
		t.Errorf("the endpoint sees %v, want the end of the stream", err)
	}
	exchange(t, stays)
	return true
}

// keepBusy has bytes echoed for so long, and returns how many. busy is false if the connection ended because a pause
// was so long that it was idle: this process may get no CPU time.
func (t *trial) keepBusy(c net.Conn, atLeast time.Duration) (n int64, busy bool) {
	t.Helper()
	go func() {
		data := bytes.Repeat([]byte("x"), 4096)
		for began := time.Now(); time.Since(began) < atLeast; {
			if _, err := c.Write(data); err != nil {
				return // the reader sees an error too
			}
		}
		c.Write([]byte("."))
	}()
	moved, longestPause := time.Now(), time.Duration(0)
	for r := bufio.NewReader(c); ; {
		got, err := r.ReadSlice('.')
		now := time.Now()
		longestPause, moved = max(longestPause, now.Sub(moved)), now
		switch n += int64(len(got)); {
		case err == nil:
			return n, true
		case errors.Is(err, bufio.ErrBufferFull):
		case longestPause < leastIdle:
			t.Fatalf("the connection ended after %d bytes: %v", n, err)
		default:
			return n, false
		}
	}
}

// leastIdle is less than the pause that is idle: the engine saw bytes a little earlier than the client.
const leastIdle = 400 * time.Millisecond

// removedEndpointReset: so long after the removal, be there traffic or not. An endpoint that terminates is there while
// it serves.
func removedEndpointReset(t *trial) {
	const after = 300 * time.Millisecond
	d := t.start(splice.Options{Policy: resetsAfter(after)})
	f := d.tcp(echoServer(t))
	c := dialTCP(t, f.at)
	exchange(t, c)
	f.change(func(v *splice.View) {
		v.Endpoints = known(f.ring.list)
		v.Endpoints[0].Ready, v.Endpoints[0].Terminating = false, true
	})
	d.noRecord(2 * after)
	removed := time.Now()
	f.change(func(v *splice.View) {
		v.Endpoints = known(f.ring.list)
		v.Endpoints[0].Ready, v.Endpoints[0].Serving = false, false
	})
	awaitReader()
	if _, err := c.Read(make([]byte, 1)); !seenAsReset(t, err) {
		t.Errorf("client sees %v, want a reset", err)
	}
	rec := d.record()
	if rec.Outcome != record.OutcomeEndpointRemoved || rec.CloseType != record.Reset || rec.ClosedBy != record.Proxy ||
		time.Since(removed) < after {
		t.Errorf("after %s, record %+v", time.Since(removed), rec)
	}
}

// removedEndpointDuringDial: what was removed after it was picked is removed for its connection too.
func removedEndpointDuringDial(t *trial) {
	d := t.start(splice.Options{Policy: resetsAfter(0)})
	at := t.refusing()
	f := d.tcp(at)
	c := dialTCP(t, f.at)
	t.eventually("the connection waits for another round", func() bool { return f.ring.rounds() > 0 })
	f.know()
	echoLater(t, at, 0)
	awaitReader()
	if _, err := c.Read(make([]byte, 1)); !seenAsReset(t, err) {
		t.Errorf("client sees %v, want a reset", err)
	}
	if rec := d.record(); rec.Outcome != record.OutcomeEndpointRemoved || rec.Connect < 0 {
		t.Errorf("record %+v", rec)
	}
}

// removedEndpointIsBack: what was to become of its connections is forgotten.
func removedEndpointIsBack(t *trial) {
	d := t.start(splice.Options{Policy: resetsAfter(1500 * time.Millisecond)})
	at := echoServer(t)
	f := d.tcp(at)
	c := dialTCP(t, f.at)
	exchange(t, c)
	f.know()
	time.Sleep(100 * time.Millisecond)
	f.know(at)
	d.noRecord(2 * time.Second)
	exchange(t, c)
}

// removedEndpointIsBackAtNewFront is the same where the front was closed meanwhile, as when there is no endpoint.
func removedEndpointIsBackAtNewFront(t *trial) {
	d := t.start(splice.Options{Policy: resetsAfter(1500 * time.Millisecond)})
	at := echoServer(t)
	f := d.tcp(at)
	c := dialTCP(t, f.at)
	exchange(t, c)
	f.RetainOnly(nil)
	f.Close()
	time.Sleep(100 * time.Millisecond)
	d.tcp(at)
	d.noRecord(2 * time.Second)
	exchange(t, c)
}

// removedEndpointOfNewFront: connections of a front that was closed end when the endpoint that was back goes for good,
// although no other is of the new front.
func removedEndpointOfNewFront(t *trial) {
	d := t.start(splice.Options{Policy: resetsAfter(100 * time.Millisecond)})
	at := echoServer(t)
	f := d.tcp(at)
	c := dialTCP(t, f.at)
	exchange(t, c)
	f.Close()
	heir := d.tcp(at)
	time.Sleep(100 * time.Millisecond)
	heir.know()
	if rec := d.record(); rec.Outcome != record.OutcomeEndpointRemoved {
		t.Errorf("record %+v", rec)
	}
}

// lastEndpointRemoved: a front that is closed because there is no endpoint takes its connections along; one that is
// closed because another carrier has the Service does not.
func lastEndpointRemoved(t *trial) {
	d := t.start(splice.Options{Policy: resetsAfter(0)})
	f, elsewhere := d.tcp(echoServer(t)), d.serve(serving{name: "other", endpoints: []netip.AddrPort{echoServer(t)}})
	c, goesOn := dialTCP(t, f.at), dialTCP(t, elsewhere.at)
	exchange(t, c)
	exchange(t, goesOn)
	elsewhere.Close()
	f.RetainOnly(nil)
	f.Close()
	if rec := d.record(); rec.Outcome != record.OutcomeEndpointRemoved || rec.Service.Name != "cart" {
		t.Errorf("record %+v", rec)
	}
	d.noRecord(100 * time.Millisecond)
	exchange(t, goesOn)
}

// maxAge: a connection ends after its age as soon as it is quiet.
func maxAge(t *trial) {
	for !endsAtMaxAge(t) {
		t.Log("no byte moved for so long that it was idle: another one")
	}
}

// endsAtMaxAge tells whether the connection could be kept busy until then.
func endsAtMaxAge(t *trial) bool {
	const age = 700 * time.Millisecond
	d := t.start(splice.Options{Policy: service.Policy{MaxAge: service.Age{Time: age}}})
	f := d.tcp(echoServer(t))
	var c *net.TCPConn
	for began := time.Now(); ; began = time.Now() {
		c = dialTCP(t, f.at)
		if _, err := c.Write([]byte("x")); err == nil && time.Since(began) < age {
			break
		}
		t.Log("the client did not get to write within the age: another one")
		c.Close()
		d.record()
	}
	if _, busy := t.keepBusy(c, 2*age); !busy {
		return false
	}
	wantRest(t, c, "")
	rec := d.record()
	if rec.Outcome != record.OutcomeMaxAge || rec.CloseType != record.FIN || rec.ClosedBy != record.Proxy ||
		rec.Duration < 2*age || rec.BytesFromClient != rec.BytesToClient {
		t.Errorf("record %+v", rec)
	}
	return true
}

// maxAgeWaitsForAnswer: a client that has asked is not cut off, however long the answer takes.
func maxAgeWaitsForAnswer(t *trial) {
	d := t.start(splice.Options{Policy: service.Policy{MaxAge: service.Age{Time: 100 * time.Millisecond}}})
	at := serveTCP(t, loopback, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 1))
		time.Sleep(1500 * time.Millisecond)
		c.Write([]byte("answer"))
		io.Copy(io.Discard, c)
	})
	c := dialTCP(t, d.tcp(at).at)
	c.Write([]byte("?"))
	wantRest(t, c, "answer")
	if rec := d.record(); rec.Outcome != record.OutcomeMaxAge || rec.Duration < 1500*time.Millisecond {
		t.Errorf("record %+v", rec)
	}
}

// maxAgeSparesHalfClosed: a connection that its client has half-closed ends by itself.
func maxAgeSparesHalfClosed(t *trial) {
	d := t.start(splice.Options{Policy: service.Policy{MaxAge: service.Age{Time: 100 * time.Millisecond}}})
	at := serveTCP(t, loopback, func(c *net.TCPConn) {
		c.Write([]byte("first "))
		io.Copy(io.Discard, c)
		time.Sleep(1200 * time.Millisecond)
		c.Write([]byte("last"))
	})
	c := dialTCP(t, d.tcp(at).at)
	c.CloseWrite()
	wantRest(t, c, "first last")
	if rec := d.record(); rec.Outcome != record.OutcomeOK {
		t.Errorf("record %+v", rec)
	}
}

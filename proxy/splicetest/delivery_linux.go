package splicetest

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func deliveryScenarios() []scenario {
	return []scenario{
		{name: "DeliversToLateReader", run: deliversToLateReader, needs: Delivers},
		{name: "DeliversEndBeforeReset", run: deliversEndBeforeReset, needs: Delivers | ResetsAfterEnd},
		{name: "DeliversToPeerThatSends", run: deliversToPeerThatSends, needs: Delivers},
		{name: "DeliversUntilNothingIsTaken", run: deliversUntilNothingIsTaken, needs: Delivers},
		{name: "DeliversUntilPeerIsGone", run: deliversUntilPeerIsGone, needs: Delivers},
		{name: "DeliversUntilItIsCut", run: deliversUntilItIsCut, needs: Delivers},
		{name: "DeliversWhileItDrains", run: deliversWhileItDrains, needs: Delivers},
		{name: "DeliversOfRemovedEndpoint", run: deliversOfRemovedEndpoint, needs: Delivers},
		{name: "DeliversAfterIdleTimeout", run: deliversAfterIdleTimeout, needs: Delivers},
		{name: "DeliversBesideHandOver", run: deliversBesideHandOver, needs: Delivers | Handover},
		{name: "DeliversAfterHandOver", run: deliversAfterHandOver, needs: Delivers | Handover},
	}
}

// undelivered is how much a side sends that nobody reads yet: more than one socket's buffers take, and less than all on
// the way.
const undelivered = 3 << 20

// parted is a connection one side of which has sent a lot, all of which the engine's host has, and the other has read
// nothing of it. It is not reset yet.
type parted struct {
	*wire
	d            *dataPath
	front        *front
	sender, peer *net.TCPConn
	from         record.Side
}

// partFrom makes one over a network of its own.
func partFrom(d *dataPath, t *trial, from record.Side) *parted {
	t.Helper()
	at, accepted := wires(t)
	f := d.tcp(at)
	return partOf(d, t, connect(t, f, accepted), f, from)
}

func partOf(d *dataPath, t *trial, w *wire, f *front, from record.Side) *parted {
	t.Helper()
	p := &parted{wire: w, d: d, front: f, sender: w.endpoint, peer: w.client, from: from}
	if from == record.Client {
		p.sender, p.peer = p.peer, p.sender
	}
	p.exchange()
	p.send(p.sender, undelivered, false)
	p.sending.Wait()
	awaitSent(p.sender)
	return p
}

// reset has the side that has sent reset the connection, and waits until the engine knows.
func (p *parted) reset() {
	p.t.Helper()
	reset(p.sender)
	p.delivers()
}

func (p *parted) delivers() {
	p.t.Helper()
	p.t.eventually("it is delivered", func() bool { return liveOf(p.d).State == record.StateDelivering })
}

// wantAll expects the other side to read all, and then a reset or the end.
func (p *parted) wantAll(end error) {
	p.t.Helper()
	sent := p.down
	if p.from == record.Client {
		sent = p.up
	}
	n, err := sent.receive(p.peer)
	if n != sent.size() || !errors.Is(err, end) && !(end != nil && isReset(err)) {
		p.t.Errorf("%d bytes of %d came, then %v, want %v", n, sent.size(), err, end)
	}
}

var errReset = errors.New("a reset")

// wantRecord expects the record of one that the sender has reset, and that had all delivered.
func (p *parted) wantRecord(of *dataPath) {
	p.t.Helper()
	rec := of.record()
	want, from, to := record.OutcomeEndpointReset, rec.BytesFromEndpoint, rec.BytesToClient
	if p.from == record.Client {
		want, from, to = record.OutcomeClientReset, rec.BytesFromClient, rec.BytesToEndpoint
	}
	if rec.Outcome != want || rec.ClosedBy != p.from || rec.CloseType != record.Reset || from != undelivered+1 ||
		to != from {
		p.t.Errorf("record %+v", rec)
	}
	p.t.eventually("all is given back", func() bool {
		s := of.Stats()
		return s.Connections == 0 && s.Delivering == 0 && s.Buffers == 0
	})
}

// eachSide runs a part for either side as the one that has sent.
func (t *trial) eachSide(run func(t *trial, from record.Side)) {
	t.Helper()
	for _, from := range []record.Side{record.Client, record.Endpoint} {
		t.sub(string(from), func(t *trial) { run(t, from) })
	}
}

// deliversToLateReader: what a side has sent before its reset waits for the other to read, also where both send.
func deliversToLateReader(t *trial) {
	t.eachSide(func(t *trial, from record.Side) {
		p := partFrom(t.start(splice.Options{}), t, from)
		p.reset()
		p.wantAll(errReset)
		p.wantRecord(p.d)
	})
}

// deliversEndBeforeReset: a side that has ended its stream and then resets has ended its stream for the other too.
func deliversEndBeforeReset(t *trial) {
	t.eachSide(func(t *trial, from record.Side) {
		p := partFrom(t.start(splice.Options{}), t, from)
		p.sender.CloseWrite()
		p.reset()
		p.wantAll(nil)
		p.wantRecord(p.d)
	})
}

// deliversToPeerThatSends: a peer that sends before it reads is not held up by a reset of the other.
func deliversToPeerThatSends(t *trial) {
	t.eachSide(func(t *trial, from record.Side) {
		p := partFrom(t.start(splice.Options{}), t, from)
		p.reset()
		if n, err := p.peer.Write(make([]byte, aLot)); err != nil {
			t.Errorf("%d bytes were taken, then %v", n, err)
		}
		p.wantAll(errReset)
		p.wantRecord(p.d)
	})
}

// deliversUntilNothingIsTaken: a peer that does not read is waited for no longer than a host without an answer. Its
// record tells what its host has.
func deliversUntilNothingIsTaken(t *trial) {
	t.eachSide(func(t *trial, from record.Side) {
		t.Parallel()
		const deadPeer = 3 * time.Second // the shortest
		p := partFrom(t.start(splice.Options{Policy: service.Policy{DeadPeer: deadPeer}}), t, from)
		began := time.Now()
		p.reset()
		rec := p.d.record()
		took := time.Since(began)
		n, err := io.Copy(io.Discard, p.peer)
		told := rec.BytesToClient
		if from == record.Client {
			told = rec.BytesToEndpoint
		}
		if took < deadPeer || took > 2*deadPeer || !isReset(err) || n+1 != told {
			t.Errorf("after %s %d bytes came and %v, record %+v", took, n, err, rec)
		}
	})
}

// deliversUntilPeerIsGone: there is nothing to deliver to a peer that resets as well.
func deliversUntilPeerIsGone(t *trial) {
	t.eachSide(func(t *trial, from record.Side) {
		p := partFrom(t.start(splice.Options{}), t, from)
		p.reset()
		reset(p.peer)
		if rec := p.d.record(); rec.ClosedBy != from {
			t.Errorf("record %+v", rec)
		}
	})
}

// deliversUntilItIsCut: who cuts it does not wait, and its record still tells who has reset it.
func deliversUntilItIsCut(t *trial) {
	t.eachSide(func(t *trial, from record.Side) {
		p := partFrom(t.start(splice.Options{}), t, from)
		p.reset()
		p.d.Cut(liveOf(p.d).ID)
		if rec := p.d.record(); rec.ClosedBy != from || rec.CloseType != record.Reset {
			t.Errorf("record %+v", rec)
		}
		if _, err := io.Copy(io.Discard, p.peer); !isReset(err) {
			t.Errorf("the peer sees %v", err)
		}
		q := partFrom(p.d, t, from)
		q.reset()
		q.d.stop()
		if rec := q.d.record(); rec.ClosedBy != from {
			t.Errorf("record %+v", rec)
		}
	})
}

// deliversWhileItDrains: a drain waits for it.
func deliversWhileItDrains(t *trial) {
	t.eachSide(func(t *trial, from record.Side) {
		p := partFrom(t.start(splice.Options{}), t, from)
		p.front.Close()
		drained := make(chan int64, 1)
		go func() { drained <- p.d.Drain(t.timeout(longest)) }()
		p.reset()
		p.wantAll(errReset)
		if left := <-drained; left != 0 {
			t.Errorf("%d are left", left)
		}
		p.wantRecord(p.d)
	})
}

// deliversOfRemovedEndpoint: a policy that resets connections of endpoints that were removed resets them behind what
// these have sent.
func deliversOfRemovedEndpoint(t *trial) {
	p := partFrom(t.start(splice.Options{Policy: resetsAfter(0)}), t, record.Endpoint)
	p.front.know()
	p.delivers()
	p.wantAll(errReset)
	rec := p.d.record()
	if rec.Outcome != record.OutcomeEndpointRemoved || rec.CloseType != record.Reset ||
		rec.BytesToClient != undelivered+1 {
		t.Errorf("record %+v", rec)
	}
	if _, err := io.Copy(io.Discard, p.endpoint); !isReset(err) {
		t.Errorf("the endpoint sees %v", err)
	}
}

// untilIdle is a timeout within which even a busy machine moves some bytes, and sees that a connection is delivered,
// which is given up after as long again.
const untilIdle = 4 * time.Second

// deliversAfterIdleTimeout: no byte may have moved here while a peer reads what its host's send queue has for it.
func deliversAfterIdleTimeout(t *trial) {
	t.eachSide(func(t *trial, from record.Side) {
		for _, half := range []bool{false, true} {
			p := partFrom(t.start(splice.Options{Policy: service.Policy{Idle: untilIdle, HalfClose: untilIdle}}), t, from)
			want := record.OutcomeIdle
			end := errReset
			if half {
				want, end = record.OutcomeHalfClosed, nil
				p.sender.CloseWrite()
			}
			p.delivers()
			p.wantAll(end)
			rec := p.d.record()
			told := rec.BytesToClient
			if from == record.Client {
				told = rec.BytesToEndpoint
			}
			if rec.Outcome != want && !half || told != undelivered+1 {
				t.Errorf("record %+v", rec)
			}
		}
	})
}

// deliversBesideHandOver: a connection in delivery stays in its process, and a successor does not wait for it.
func deliversBesideHandOver(t *trial) {
	t.eachSide(func(t *trial, from record.Side) {
		at, accepted := wires(t)
		s := t.succeeds(splice.Options{}, inet.TCP, at)
		p := partOf(s.old, t, connect(t, s.front, accepted), s.front, from)
		p.reset()
		goesOn := connect(t, s.front, accepted)
		goesOn.exchange()
		if left := s.taken(noChange); left != 0 || s.old.Stats().Connections != 1 || s.next.Stats().Connections != 1 {
			t.Errorf("%d are left, %d of them, and %d were taken", left, s.old.Stats().Connections, s.next.Stats().Connections)
		}
		p.wantAll(errReset)
		p.wantRecord(s.old)
		goesOn.ends()
		s.next.record()
		s.givenBack()
	})
}

// deliversAfterHandOver: what a side has sent is delivered that resets while nobody carries the connection.
func deliversAfterHandOver(t *trial) {
	t.eachSide(func(t *trial, from record.Side) {
		for _, taken := range []bool{true, false} {
			at, accepted := wires(t)
			s := t.succeeds(splice.Options{}, inet.TCP, at)
			p := partOf(s.old, t, connect(t, s.front, accepted), s.front, from)
			on := s.old
			if taken {
				s.taken(func([]*splice.Departure) { reset(p.sender) })
				on = s.next
			} else {
				s.kept(func([]*splice.Departure) { reset(p.sender) })
			}
			p.wantAll(errReset)
			p.wantRecord(on)
			s.givenBack()
		}
	})
}

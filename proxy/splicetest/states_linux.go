package splicetest

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func handOverScenarios() []scenario {
	return []scenario{
		{name: "HandOverStates", run: handOverStates, needs: Handover},
		{name: "HandOverOfWhatIsSaved", run: handOverOfWhatIsSaved, needs: Handover | UrgentData},
		{name: "HandOverOfSome", run: handOverOfSome, needs: Handover},
		{name: "HandOverPlaces", run: handOverPlaces, needs: Handover},
		{name: "HandOverReset", run: handOverReset, needs: Handover},
		{name: "HandOverWaiting", run: handOverWaiting, needs: Handover},
		{name: "HandOverTimers", run: handOverTimers, needs: Handover},
		{name: "HandOverCut", run: handOverCut, needs: Handover},
		{name: "HandOverUnderLoad", run: handOverUnderLoad, needs: Handover},
		{name: "HandOverTransparent", run: handOverTransparent, needs: Handover | ClientAddresses, scope: network},
	}
}

// state is one that a connection may be in when it is handed over.
type state struct {
	name  string
	copy  bool // there are no pipes
	reach func(s *succession, w *wire)
	is    func(s *splice.SavedConn) bool // that this is what was saved; nil: anything is
}

// states are the states of established connections.
func states() []state {
	const some = 8 << 20
	up := func(end bool) func(*succession, *wire) {
		return func(s *succession, w *wire) { w.send(w.client, aLot/4, end); s.still() }
	}
	down := func(end bool) func(*succession, *wire) {
		return func(s *succession, w *wire) { w.send(w.endpoint, aLot/4, end); s.still() }
	}
	both := func(s *succession, w *wire) { up(true)(s, w); down(true)(s, w) }
	return []state{
		{name: "idle", reach: func(_ *succession, w *wire) { w.exchange() }},
		{name: "silent", reach: func(*succession, *wire) {}},
		{name: "bulk", reach: func(s *succession, w *wire) {
			w.send(w.client, some, false)
			io.ReadFull(w.endpoint, make([]byte, some/4))
			w.up = w.up.without(some / 4)
		}},
		{name: "endpoint blocked, pipe", reach: up(false), is: func(s *splice.SavedConn) bool { return s.Up.InPipe > 0 }},
		{name: "client blocked, pipe", reach: down(false), is: func(s *splice.SavedConn) bool { return s.Down.InPipe > 0 }},
		{name: "endpoint blocked, buffer", copy: true, reach: up(false),
			is: func(s *splice.SavedConn) bool { return len(s.Up.Rest) > 0 && s.ToEndpoint.Full }},
		{name: "client blocked, buffer", copy: true, reach: down(false),
			is: func(s *splice.SavedConn) bool { return len(s.Down.Rest) > 0 && s.ToClient.Full }},
		{name: "both blocked, pipes", reach: both,
			is: func(s *splice.SavedConn) bool { return s.Up.InPipe > 0 && s.Down.InPipe > 0 }},
		{name: "both blocked, buffers", copy: true, reach: both,
			is: func(s *splice.SavedConn) bool { return len(s.Up.Rest) > 0 && len(s.Down.Rest) > 0 }},
		{name: "end of the client behind a pipe", reach: up(true),
			is: func(s *splice.SavedConn) bool { return s.Up.InPipe > 0 && !s.ClientEOF }},
		{name: "end of the endpoint behind a pipe", reach: down(true),
			is: func(s *splice.SavedConn) bool { return s.Down.InPipe > 0 && !s.EndpointEOF }},
		{name: "half-closed by the client", reach: func(s *succession, w *wire) {
			w.client.CloseWrite()
			s.halfClosed()
			w.send(w.endpoint, some, true)
		}, is: func(s *splice.SavedConn) bool { return s.ClientEOF && s.Up.EOF }},
		{name: "half-closed by the endpoint", reach: func(s *succession, w *wire) {
			w.endpoint.CloseWrite()
			s.halfClosed()
			w.send(w.client, some, true)
		}, is: func(s *splice.SavedConn) bool { return s.EndpointEOF && s.Down.EOF }},
		{name: "urgent bytes on their way", reach: func(s *succession, w *wire) {
			inline(w.endpoint)
			data := noiseOf(aLot / 4)
			w.up = stream{data}
			w.sending.Go(func() { sendChunks(w.client, data, 1<<18) })
			s.still()
		}},
	}
}

func (s *succession) halfClosed() {
	s.Helper()
	s.eventually("it is half-closed", func() bool { return liveOf(s.old).State == record.StateHalfClosed })
}

// handOverStates: a connection in any state goes on at the successor, or where it was if that does not take it. Nothing
// is lost, and there is one record, of all of it.
func handOverStates(t *trial) {
	for _, st := range states() {
		for _, taken := range []bool{true, false} {
			t.sub(fmt.Sprintf("%s, taken %t", st.name, taken), func(t *trial) {
				t.Parallel()
				handOverState(t, st, taken)
			})
		}
	}
}

func handOverState(t *trial, st state, taken bool) {
	at, accepted := wires(t)
	var o splice.Options
	if st.copy {
		o.Account = quota.NewAccount(quota.Budget{PipePages: 1})
	}
	s := t.succeeds(o, inet.TCP, at)
	began := time.Now()
	w := connect(t, s.front, accepted)
	t.eventually("it is open", func() bool { return liveOf(s.old).State == record.StateOpen })
	st.reach(s, w)
	before := liveOf(s.old)
	t.eventually("the state is reached", func() (reached bool) {
		s.kept(func(all []*splice.Departure) { reached = st.is == nil || st.is(all[0].Conn) })
		return reached
	})
	saved := 0
	look := func(all []*splice.Departure) { saved += len(all) }
	on, off := s.next, s.old
	if taken {
		if left := s.taken(look); left != 0 || s.old.Stats().Connections != 0 || s.front.Active() != 0 {
			t.Fatalf("%d connections are left", left)
		}
		if s.toNext.Active() != 1 || s.next.Stats().Connections != 1 {
			t.Errorf("the successor has %d connections", s.next.Stats().Connections)
		}
	} else {
		s.kept(look)
		on, off = s.old, s.next
	}
	if saved != 1 {
		t.Fatalf("%d connections were handed over", saved)
	}
	w.ends()
	rec := on.record()
	if rec.ID != before.ID || !rec.Start.Equal(before.Start) || rec.Duration > time.Since(began) ||
		rec.Client != addrOf(w.client.LocalAddr()) || rec.OriginalDst != s.front.at || rec.Proxy() != before.Proxy ||
		rec.Endpoint != before.Endpoint || rec.Outcome != record.OutcomeOK || rec.Connect < 0 {
		t.Errorf("record %+v, before %+v", rec, before)
	}
	wantTotals(t, rec, w)
	s.givenBack()
	if len(off.records) > 0 {
		t.Error("both have a record of it")
	}
}

// wantTotals expects the record to count all bytes, of before and after.
func wantTotals(t *trial, rec *record.Record, w *wire) {
	t.Helper()
	if rec.BytesFromClient != rec.BytesToEndpoint || rec.BytesFromEndpoint != rec.BytesToClient ||
		rec.BytesFromClient < int64(w.up.size()) || rec.BytesFromEndpoint < int64(w.down.size()) {
		t.Errorf("record %+v of %d bytes up and %d down", rec, w.up.size(), w.down.size())
	}
}

// handOverOfWhatIsSaved: state of a flow that a scenario cannot bring about goes on as it was saved: the rest of a
// PROXY header, which is not counted, and an urgent byte, which stays one.
func handOverOfWhatIsSaved(t *trial) {
	at, accepted := wires(t)
	s := t.succeeds(splice.Options{}, inet.TCP, at)
	half, urgent := connect(t, s.front, accepted), connect(t, s.front, accepted)
	half.exchange()
	urgent.exchange()
	header := "rest of a header"
	s.taken(func(all []*splice.Departure) {
		for _, d := range all {
			if d.Conn.Client == addrOf(half.client.LocalAddr()) {
				d.Conn.Up.Rest, d.Conn.Up.Passed = []byte(header), d.Conn.Up.Passed-int64(len(header))
			} else {
				d.Conn.Up.Rest, d.Conn.Up.Urgent, d.Conn.ToClient.Urgent = []byte("R"), true, true
				d.Conn.Up.Carried++
			}
		}
	})
	if got := urgentByte(urgent.endpoint); got != 'R' {
		t.Errorf("urgent byte %q, want R", got)
	}
	half.up = stream{[]byte(header)}
	half.send(half.client, 1000, false)
	half.ends()
	if rec := s.next.record(); rec.BytesFromClient != 1001 || rec.BytesToEndpoint != 1001 {
		t.Errorf("record %+v", rec)
	}
	urgent.send(urgent.client, 1000, false)
	urgent.ends()
	if rec := s.next.record(); rec.BytesFromClient != 1002 || rec.BytesToEndpoint != 1002 {
		t.Errorf("record %+v", rec)
	}
	s.givenBack()
}

// handOverOfSome: one that no message has room for goes on where it is, and the hand-over of the others does not wait
// for it. After a hand-over that failed it may be passed on.
func handOverOfSome(t *trial) {
	at, accepted := wires(t)
	s := t.succeeds(splice.Options{}, inet.TCP, at)
	all := []*wire{connect(t, s.front, accepted), connect(t, s.front, accepted), connect(t, s.front, accepted)}
	for _, w := range all {
		w.exchange()
	}
	large := addrOf(all[1].client.LocalAddr())
	asked := 0
	look := func(some []*splice.Departure) {
		for _, d := range some {
			if d.Conn.Client == large {
				d.Conn.Endpoint.Pod = strings.Repeat("x", 1<<20)
				asked++
			}
		}
	}
	s.kept(func(some []*splice.Departure) {
		for _, d := range some {
			d.Stays = d.Conn.Client == large
		}
	})
	s.old.Moving().Remain()
	for range 2 { // the second time only those are asked that may go
		if left := s.taken(look); left != 0 {
			t.Errorf("%d connections may still be handed over", left)
		}
	}
	if asked != 1 {
		t.Errorf("the large one was to be passed on %d times", asked)
	}
	for i, w := range all {
		w.exchange()
		w.ends()
		of := s.next
		if i == 1 {
			of = s.old
		}
		if rec := of.record(); rec.Outcome != record.OutcomeOK {
			t.Errorf("record %+v", rec)
		}
	}
	s.givenBack()
}

// handOverReset: a peer that resets, or closes, while nobody carries the connection is noticed by who goes on with it.
func handOverReset(t *trial) {
	for _, taken := range []bool{true, false} {
		for name, c := range map[string]struct {
			end  func(w *wire)
			want record.Outcome
		}{
			"client":   {func(w *wire) { reset(w.client) }, record.OutcomeClientReset},
			"endpoint": {func(w *wire) { reset(w.endpoint) }, record.OutcomeEndpointReset},
			"both end": {func(w *wire) { w.client.Close(); w.endpoint.Close() }, record.OutcomeOK},
		} {
			t.sub(fmt.Sprintf("%s, taken %t", name, taken), func(t *trial) {
				at, accepted := wires(t)
				s := t.succeeds(splice.Options{}, inet.TCP, at)
				w := connect(t, s.front, accepted)
				w.exchange()
				end := func([]*splice.Departure) { c.end(w) }
				on := s.next
				if taken {
					s.taken(end)
				} else {
					s.kept(end)
					on = s.old
				}
				if rec := on.record(); rec.Outcome != c.want || rec.BytesToClient != 1 || rec.BytesToEndpoint != 1 {
					t.Errorf("record %+v", rec)
				}
				s.givenBack()
			})
		}
	}
}

// handOverWaiting: a connection that has no endpoint yet stays until it has one.
func handOverWaiting(t *trial) {
	at, accepted := wires(t)
	s := t.succeeds(timeouts(20_000, 20_000), inet.TCP, t.refusing())
	w := &wire{t: t, client: dialTCP(t, s.front.at)}
	t.eventually("it waits", func() bool { return liveOf(s.old).State == record.StateWaiting })
	if left := s.taken(noChange); left != 1 {
		t.Errorf("%d are left", left)
	}
	s.front.lead(at)
	w.endpoint = <-accepted
	t.eventually("it is open", func() bool { return liveOf(s.old).State == record.StateOpen })
	if left := s.taken(noChange); left != 0 {
		t.Errorf("%d are left", left)
	}
	w.exchange()
	w.ends()
	if rec := s.next.record(); rec.Outcome != record.OutcomeOK || len(rec.Attempts) < 2 {
		t.Errorf("record %+v", rec)
	}
	s.givenBack()
}

// silent hands over a connection or session that is silent for a while, and ends after twice that, and returns its
// record. It ends before it would if its silence began with the hand-over; on a busy machine maybe before that.
func (s *succession) silent(handOver func()) (rec *record.Record) {
	s.Helper()
	time.Sleep(silence)
	began := time.Now()
	handOver()
	select {
	case rec = <-s.old.records:
	case rec = <-s.next.records:
	case <-time.After(longest):
		s.Fatalf("no record came within %s", longest)
	}
	if rec.Duration < 2*silence || !rec.Start.Add(rec.Duration).Before(began.Add(2*silence)) {
		s.Errorf("handed over at %s: record %+v", began, rec)
	}
	return rec
}

// handOverTimers: the time that a connection was silent before counts.
func handOverTimers(t *trial) {
	policy := service.Policy{Idle: 2 * silence, HalfClose: 2 * silence}
	for _, taken := range []bool{true, false} {
		for _, half := range []bool{false, true} {
			t.sub(fmt.Sprintf("half-closed %t, taken %t", half, taken), func(t *trial) {
				t.Parallel()
				at, accepted := wires(t)
				s := t.succeeds(splice.Options{Policy: policy}, inet.TCP, at)
				w := connect(t, s.front, accepted)
				w.exchange()
				want := record.OutcomeIdle
				if half {
					w.client.CloseWrite()
					s.halfClosed()
					want = record.OutcomeHalfClosed
				}
				rec := s.silent(func() {
					if taken {
						s.taken(noChange)
					} else {
						s.kept(noChange)
					}
				})
				if rec.Outcome != want {
					t.Errorf("record %+v", rec)
				}
				s.givenBack()
			})
		}
	}
}

// handOverCut: who cuts connections while they are handed over ends each of them once, and nothing else.
func handOverCut(t *trial) {
	at := echoServer(t)
	s := t.succeeds(splice.Options{}, inet.TCP, at)
	const n = 60
	var clients []*net.TCPConn
	for range n {
		c := dialTCP(t, s.front.at)
		exchange(t, c)
		clients = append(clients, c)
	}
	s.kept(func(all []*splice.Departure) {
		s.old.Cut(all[0].Conn.ID)
		clients = slices.DeleteFunc(clients, func(c *net.TCPConn) bool { return addrOf(c.LocalAddr()) == all[0].Conn.Client })
	})
	if rec := s.old.record(); rec.Outcome != record.OutcomeCut {
		t.Errorf("record %+v", rec)
	}
	s.taken(func([]*splice.Departure) {
		var cutting sync.WaitGroup
		for _, l := range s.old.Snapshot() {
			cutting.Go(func() { s.old.Cut(l.ID) })
		}
		cutting.Wait()
	})
	for range clients {
		go s.next.CutAll()
		if rec := s.next.record(); rec.Outcome != record.OutcomeCut {
			t.Errorf("record %+v", rec)
		}
	}
	s.givenBack()
}

// handOverUnderLoad: connections come, talk and go while they are handed over again and again. Each is served, and has
// one record.
func handOverUnderLoad(t *trial) {
	at := echoServer(t)
	s := t.succeeds(splice.Options{}, inet.TCP, at)
	const clients, times = 8, 40
	var wg sync.WaitGroup
	var done atomic.Bool
	for range clients {
		wg.Go(func() { echoTimes(t, s.front.at, times) })
	}
	handed := make(chan struct{})
	go func() {
		defer close(handed)
		for !done.Load() {
			s.kept(noChange)
			s.taken(noChange)
		}
	}()
	wg.Wait()
	done.Store(true)
	<-handed
	ids := map[uint64]bool{}
	for range clients * times {
		var rec *record.Record
		select {
		case rec = <-s.old.records:
		case rec = <-s.next.records:
		case <-time.After(longest):
			t.Fatalf("%d records of %d came", len(ids), clients*times)
		}
		if ids[rec.ID] && rec.ID != 0 {
			t.Errorf("two records of %d", rec.ID)
		}
		if ids[rec.ID] = true; rec.Outcome != record.OutcomeOK || rec.BytesToClient != 1 {
			t.Errorf("record %+v", rec)
		}
	}
	s.givenBack()
}

// handOverTransparent: an endpoint goes on to see the client's address, and its bytes find the way back.
func handOverTransparent(t *trial) {
	c := newCluster(t)
	c.routeReplies()
	for _, family := range inet.Families() {
		endpoint := netip.AddrPortFrom(podAddrs[family], 8080)
		seen := make(chan netip.AddrPort, 1)
		c.pod.Must(func() error {
			return c.listen(endpoint, func(conn *net.TCPConn) {
				seen <- addrOf(conn.RemoteAddr())
				echo(conn)
			})
		})
		o := splice.Options{Policy: asClient, Returns: returns, Start: time.Now()}
		s := &succession{trial: t, old: t.start(o), next: t.start(o)}
		port := expose(s.old, service.Port{}, inet.TCP, family, toOne(endpoint))
		s.toNext = s.next.serve(serving{endpoints: []netip.AddrPort{endpoint}})
		var client net.Conn
		c.client.Must(func() (err error) {
			client, err = net.Dial("tcp", netip.AddrPortFrom(towardClient[family], port).String())
			return err
		})
		defer client.Close()
		client.SetDeadline(time.Now().Add(longest))
		exchange(t, client)
		if at := <-seen; at.Addr() != clientAddrs[family] {
			t.Errorf("the endpoint sees %s", at)
		}
		if left := s.taken(noChange); left != 0 {
			t.Errorf("%d are left", left)
		}
		exchange(t, client)
		wantEcho(t, client.(*net.TCPConn), "x")
		if rec := s.next.record(); rec.Outcome != record.OutcomeOK || rec.BytesToClient != 3 {
			t.Errorf("record %+v", rec)
		}
	}
}

package splicetest

import (
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func registryScenarios() []scenario {
	return []scenario{
		{name: "Snapshot", run: snapshot},
		{name: "CutByID", run: cutByID},
		{name: "CutWhileDialling", run: cutWhileDialling},
		{name: "Events", run: events},
	}
}

// snapshot: an open connection is in the snapshot, with its bytes so far, until it has ended.
func snapshot(t *trial) {
	o := timeouts(10_000) // one dial, also on a busy machine
	o.Policy.UDPIdle = shortUDPIdle.UDPIdle
	d := t.start(o)
	server, datagrams := echoServer(t), echoDatagrams(t, loopback)
	tcp, udp := d.tcp(server), d.udp(datagrams)
	c := dialTCP(t, tcp.at)
	c.Write([]byte("hello"))
	t.eventually("the connection is shown", func() bool {
		all := d.Snapshot()
		return len(all) == 1 && all[0].BytesToClient == 5 && all[0].BytesToEndpoint == 5 // its echo may come before
	})
	want := record.Live{
		Service: tcp.Name(), Client: addrOf(c.LocalAddr()), OriginalDst: tcp.at,
		Endpoint: known([]netip.AddrPort{server})[0],
		State:    record.StateOpen, Attempts: 1, Logging: service.DefaultPolicy().Logging,
		BytesFromClient: 5, BytesToEndpoint: 5, BytesFromEndpoint: 5, BytesToClient: 5,
	}
	got := d.Snapshot()[0]
	want.ID, want.Start, want.LastMoved, want.Proxy = got.ID, got.Start, got.LastMoved, got.Proxy
	want.FirstByte = got.FirstByte
	if got != want || got.FirstByte <= 0 || got.ID == 0 || got.Start.IsZero() || got.LastMoved.Before(got.Start) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	q := dialUDP(t, udp.at)
	ask(t, q, "question")
	session := func(l record.Live) bool {
		return l.Client == addrOf(q.LocalAddr()) && l.Endpoint.Addr == datagrams && l.BytesToClient == 8 && l.FirstByte > 0
	}
	t.eventually("the session is shown", func() bool { return slices.ContainsFunc(d.Snapshot(), session) })
	c.Close()
	for range 2 {
		if rec := d.record(); rec.Service == tcp.Name() && rec.Proxy() != got.Proxy {
			t.Errorf("proxy %s was shown, the record has %s", got.Proxy, rec.Proxy())
		}
	}
	if all := d.Snapshot(); len(all) != 0 {
		t.Errorf("%+v after the end of both", all)
	}
}

// cutByID: one is cut, and the others go on.
func cutByID(t *trial) {
	d := t.start(splice.Options{})
	f, u := d.tcp(echoServer(t)), d.udp(echoDatagrams(t, loopback))
	cut, stays, q := dialTCP(t, f.at), dialTCP(t, f.at), dialUDP(t, u.at)
	exchange(t, cut)
	exchange(t, stays)
	ask(t, q, "question")
	for _, client := range []net.Conn{cut, q} {
		cutClient(d, addrOf(client.LocalAddr()))
		rec := d.record()
		if rec.Outcome != record.OutcomeCut || rec.Client != addrOf(client.LocalAddr()) {
			t.Errorf("record %+v", rec)
		}
		if d.Cut(rec.ID) {
			t.Error("what has ended is cut again")
		}
	}
	if _, err := cut.Read(make([]byte, 1)); !seenAsReset(t, err) {
		t.Errorf("client sees %v, want a reset", err)
	}
	wantEcho(t, stays, "a")
	ask(t, q, "another question")
}

// cutClient cuts what a client has.
func cutClient(d *dataPath, client netip.AddrPort) {
	d.t.Helper()
	for _, l := range d.Snapshot() {
		if l.Client == client {
			if !d.Cut(l.ID) {
				d.t.Errorf("%d is not known", l.ID)
			}
			return
		}
	}
	d.t.Fatalf("%s is not in the snapshot", client)
}

// cutWhileDialling: a connection that waits for another round of dials is cut like any other.
func cutWhileDialling(t *trial) {
	d := t.start(splice.Options{})
	f := d.tcp(t.refusing())
	c := dialTCP(t, f.at)
	t.eventually("it waits", func() bool { return f.ring.rounds() > 0 })
	if l := d.Snapshot(); len(l) != 1 || l[0].Endpoint.Addr.IsValid() {
		t.Errorf("%+v", l)
	}
	cutClient(d, addrOf(c.LocalAddr()))
	if rec := d.record(); rec.Outcome != record.OutcomeCut {
		t.Errorf("record %+v", rec)
	}
}

// eventLog collects the calls of its events.
type eventLog struct {
	mu       sync.Mutex
	started  []record.Live
	attempts []record.Attempt
	ended    []*record.Record
	ids      []uint64 // of all of them, in their order
}

func (l *eventLog) events() record.Events {
	add := func(id uint64, add func()) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ids = append(l.ids, id)
		add()
	}
	return record.Events{
		Started: func(s record.Live) { add(s.ID, func() { l.started = append(l.started, s) }) },
		Attempted: func(live record.Live, a record.Attempt) {
			add(live.ID, func() { l.attempts = append(l.attempts, a) })
		},
		Ended: func(r *record.Record) { add(r.ID, func() { l.ended = append(l.ended, r) }) },
	}
}

// events: subscribers come and go while connections are carried.
func events(t *trial) {
	d := t.start(splice.Options{})
	server, refusing := echoServer(t), t.refusing()
	f := d.tcp(refusing, server)
	serve := func() *record.Record {
		c := dialTCP(t, f.at)
		wantEcho(t, c, "hello")
		return d.record()
	}
	serve()
	var all, ends eventLog
	cancel := d.Subscribe(all.events())
	defer d.Subscribe(record.Events{Ended: ends.events().Ended})()
	f.ring.set(refusing, server)
	rec := serve()
	t.eventually("the end is observed", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return len(all.ended) == 1
	})
	cancel()
	serve()
	t.eventually("both ends are observed", func() bool {
		ends.mu.Lock()
		defer ends.mu.Unlock()
		return len(ends.ended) == 2 && len(ends.ids) == 2
	})
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.started) != 1 || all.started[0].Client != rec.Client ||
		len(all.ended) != 1 || all.ended[0].ID != rec.ID {
		t.Errorf("started %+v, ended %+v", all.started, all.ended)
	}
	if slices.ContainsFunc(all.ids, func(id uint64) bool { return id != rec.ID }) {
		t.Errorf("events of %v, want those of %d alone", all.ids, rec.ID)
	}
	if !slices.Equal(all.attempts, rec.Attempts) {
		t.Errorf("attempts %+v, the record has %+v", all.attempts, rec.Attempts)
	}
}

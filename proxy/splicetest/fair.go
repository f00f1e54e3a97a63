package splicetest

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func fairScenarios() []scenario {
	return []scenario{
		{name: "PlacesOfEachClient", run: placesOfEachClient},
		{name: "PlacesOfOpenConnections", run: placesOfOpenConnections},
		{name: "RateOfEachClient", run: rateOfEachClient},
		{name: "RateOfAllClients", run: rateOfAllClients},
		{name: "UDPPlacesOfEachClient", run: udpPlacesOfEachClient},
		{name: "UDPRateOfEachClient", run: udpRateOfEachClient},
	}
}

func shares(s service.Shares) splice.Options {
	return splice.Options{Policy: service.Policy{Shares: s}}
}

// wantRefusals expects so many records of refused connections of one client.
func wantRefusals(d *dataPath, n int, client string, o record.Outcome) {
	d.t.Helper()
	for range n {
		rec := d.record()
		if rec.Outcome != o || rec.ClosedBy != record.Proxy || rec.CloseType != record.Reset || len(rec.Attempts) != 0 ||
			rec.Client.Addr().String() != client {
			d.t.Fatalf("record %+v, want %s of %s", rec, o, client)
		}
	}
}

// besieged has a client connect as fast as it can until stop, which returns how many of its connections were served and
// how long it tried. Those that were stay open for a moment only.
func (t *trial) besieged(at netip.AddrPort) (stop func() (served int, lasted time.Duration)) {
	var n atomic.Int64
	began, end, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
			}
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(greedy)}, Timeout: longest}
			c, err := dialer.Dial("tcp", at.String())
			if err != nil {
				continue
			}
			if exchanged(c) == nil {
				n.Add(1)
			}
			c.Close()
		}
	}()
	return func() (int, time.Duration) {
		close(end)
		<-ended
		return int(n.Load()), time.Since(began)
	}
}

// placesOfEachClient: a client that opens connections without end has its places and no more. The others of the Service
// have theirs, which they have not without that limit, and so has every other Service.
func placesOfEachClient(t *trial) {
	const most, each = 8, 3
	d := t.start(splice.Options{Policy: service.Policy{MaxConnections: most}})
	pod := echoServer(t)
	f := d.tcp(pod)
	for i := range most + 2 {
		if t.served(greedy, f.at) != (i < most) {
			t.Fatalf("connection %d", i)
		}
	}
	wantRefusals(d, 2, greedy, record.OutcomeLimit)
	if t.served(modest, f.at) {
		t.Error("there is a place that there cannot be")
	}
	wantRefusals(d, 1, modest, record.OutcomeLimit)

	d = t.start(splice.Options{Policy: service.Policy{
		MaxConnections: most, Shares: service.Shares{MaxConnectionsPerClient: each},
	}})
	f = d.tcp(pod)
	other := serveAs(d, "other", inet.TCP, pod)
	for i := range 30 {
		if t.served(greedy, f.at) != (i < each) {
			t.Fatalf("connection %d", i)
		}
	}
	wantRefusals(d, 30-each, greedy, record.OutcomeClientLimit)
	for range each {
		if !t.served(modest, f.at) || !t.served(greedy, other) {
			t.Error("another is refused")
		}
	}
	if f.Active() != 2*each {
		t.Errorf("%d connections are open", f.Active())
	}
}

// placesOfOpenConnections: a limit that is set later counts connections that are open, and ends none of them. A place
// is free again when a connection ends.
func placesOfOpenConnections(t *trial) {
	d := t.start(splice.Options{})
	f := d.tcp(echoServer(t))
	var open []*net.TCPConn
	for range 3 {
		c := dialTCP(t, f.at)
		exchange(t, c)
		open = append(open, c)
	}
	f.under(service.Policy{Shares: service.Shares{MaxConnectionsPerClient: 3}})
	t.eventually("those that are open are counted", func() bool { return !servedOnce(t, f.at) })
	for range len(d.records) {
		if o := d.record().Outcome; o != record.OutcomeClientLimit && o != record.OutcomeOK {
			t.Errorf("a connection ends with %s", o)
		}
	}
	for _, c := range open {
		exchange(t, c)
	}
	open[0].Close()
	t.eventually("a place is free", func() bool { return servedOnce(t, f.at) })
	f.under(service.Policy{})
	for range 3 {
		exchange(t, dialTCP(t, f.at))
	}
}

// servedOnce has a client ask, and then leave.
func servedOnce(t *trial, to netip.AddrPort) bool {
	t.Helper()
	c, err := net.Dial("tcp", to.String())
	if isReset(err) {
		return false
	}
	t.must(err)
	defer c.Close()
	c.SetDeadline(time.Now().Add(longest))
	c.Write([]byte("x"))
	_, err = io.ReadFull(c, make([]byte, 1))
	return err == nil
}

// rateOfEachClient: a client that connects as fast as it can gets its rate. The others of the Service get theirs. The
// rate is one that a client exceeds on a slow machine too.
func rateOfEachClient(t *trial) {
	const rate, tries = 2, 3
	d := t.start(shares(service.Shares{ConnectionRatePerClient: rate, ConnectionRate: 1000}))
	pod := echoServer(t)
	f, other := d.tcp(pod), serveAs(d, "other", inet.TCP, pod)
	stop := t.besieged(f.at)
	for range tries {
		time.Sleep(1200 * time.Millisecond / rate)
		if !t.served(modest, f.at) || !t.served(modest, other) {
			t.Error("another is refused")
		}
	}
	served, lasted := stop()
	if most := rate + int(lasted*rate/time.Second) + 1; served < rate || served > most {
		t.Errorf("%d are served in %s, want %d to %d", served, lasted, rate, most)
	}
	refused := 0
	for range len(d.records) {
		switch rec := d.record(); {
		case rec.Outcome == record.OutcomeClientRate && rec.Client.Addr().String() == greedy:
			refused++
		case rec.Outcome == record.OutcomeClientRate, rec.Outcome == record.OutcomeRate:
			t.Errorf("record %+v", rec)
		}
	}
	if refused == 0 {
		t.Error("no record of a refusal")
	}
}

// rateOfAllClients: a Service gets so many connections a second of all its clients, at once and later. Another Service
// has its own.
func rateOfAllClients(t *trial) {
	const rate = 2
	d := t.start(splice.Options{})
	pod := echoServer(t)
	f, other := d.tcp(pod), serveAs(d, "other", inet.TCP, pod)
	f.under(service.Policy{Shares: service.Shares{ConnectionRate: rate}})
	began, served, refused := time.Now(), 0, 0
	for client := 0; time.Since(began) < 700*time.Millisecond || refused == 0 && time.Since(began) < longest; client++ {
		if t.served(fmt.Sprintf("127.0.1.%d", 1+client%200), f.at) {
			served++
		} else {
			refused++
		}
	}
	if most := rate + int(time.Since(began)*rate/time.Second) + 1; served < rate || served > most {
		t.Errorf("%d are served, want %d to %d", served, rate, most)
	}
	if rec := d.record(); refused == 0 || rec.Outcome != record.OutcomeRate || len(rec.Attempts) != 0 {
		t.Errorf("%d refused, record %+v", refused, rec)
	}
	if !t.served(modest, other) {
		t.Error("another Service refuses")
	}
	f.under(service.Policy{})
	for range 2 * rate {
		if !t.served(modest, f.at) {
			t.Error("the limit is still in force")
		}
	}
}

// udpPlacesOfEachClient: a client that begins sessions without end has its places, and those go on. The others of the
// Service have theirs.
func udpPlacesOfEachClient(t *trial) {
	needSource(t, greedy)
	const each = 3
	d := t.start(shares(service.Shares{MaxConnectionsPerClient: each}))
	pod := named(t, "pod")
	f, other := d.udp(pod), serveAs(d, "other", inet.UDP, pod)
	first := dialUDPFrom(t, greedy, f.at)
	ask(t, first, "first")
	for range 50 {
		dialUDPFrom(t, greedy, f.at).Write([]byte("x"))
	}
	wantRefusals(d, 51-each, greedy, record.OutcomeClientLimit)
	for range each {
		ask(t, dialUDPFrom(t, modest, f.at), "x")
	}
	ask(t, dialUDPFrom(t, greedy, other), "x")
	ask(t, first, "again")
	if f.Active() != 2*each {
		t.Errorf("%d sessions", f.Active())
	}
}

// udpRateOfEachClient: of one client's flood its rate is served. One of many addresses keeps nobody out: each has its
// own rate.
func udpRateOfEachClient(t *trial) {
	needSource(t, greedy)
	const rate, flood = 2, 200
	d := t.start(shares(service.Shares{ConnectionRatePerClient: rate}))
	f := d.udp(named(t, "pod"))
	began := time.Now()
	for range flood {
		dialUDPFrom(t, greedy, f.at).Write([]byte("x"))
	}
	ask(t, dialUDPFrom(t, modest, f.at), "x") // the flood is over then
	served := int(f.Active()) - 1
	if most := rate + int(time.Since(began)*rate/time.Second) + 1; served < rate || served > most {
		t.Errorf("%d of the flood are served, want %d to %d", served, rate, most)
	}
	wantRefusals(d, flood-served, greedy, record.OutcomeClientRate)
	for i := range flood {
		ask(t, dialUDPFrom(t, fmt.Sprintf("127.0.2.%d", 1+i), f.at), "x")
	}
	ask(t, dialUDPFrom(t, modest, f.at), "x")
	if n := len(d.records); n > 0 {
		t.Errorf("record %+v", d.record())
	}
}

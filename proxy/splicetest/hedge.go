package splicetest

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func hedgeScenarios() []scenario {
	return []scenario{
		{name: "HedgeWins", run: hedgeWins},
		{name: "HedgeFails", run: hedgeFails},
		{name: "HedgeIsHedged", run: hedgeIsHedged},
		{name: "HedgesAllTimeOut", run: hedgesAllTimeOut},
		{name: "HedgeNotFor", run: hedgeNotFor},
		{name: "HedgeWithoutDescriptor", run: hedgeWithoutDescriptor},
		{name: "HedgeEndsWithItsClient", run: hedgeEndsWithItsClient},
		{name: "HedgeIsCut", run: hedgeIsCut},
		{name: "HedgeWaitsForTheHost", run: hedgeWaitsForTheHost},
	}
}

// hedging is timeouts with another dial after so long.
func hedging(after time.Duration, ms ...time.Duration) splice.Options {
	o := timeouts(ms...)
	o.Policy.HedgeAfter = after
	return o
}

// dialsOf says of each attempt, in order, at which of the endpoints it was, whether it was a hedge, and its error.
func dialsOf(rec *record.Record, endpoints ...netip.AddrPort) (all []string) {
	for _, a := range rec.Attempts {
		text := string(rune('a' + slices.Index(endpoints, a.Endpoint)))
		if a.Hedge {
			text += " hedge"
		}
		switch {
		case refusedIn(a):
			text += " refused"
		case a.Err != "":
			text += " " + a.Err
		}
		all = append(all, text)
	}
	return all
}

func wantDials(t *trial, rec *record.Record, endpoints []netip.AddrPort, want string) {
	t.Helper()
	if got := strings.Join(dialsOf(rec, endpoints...), ", "); got != want {
		t.Errorf("dials %q, want %q: record %+v", got, want, rec)
	}
}

// wantHedged has a client use a front that hedges to these endpoints, and expects these dials and ways of leases.
func wantHedged(t *trial, o splice.Options, endpoints []netip.AddrPort, want string, leases ...string) *record.Record {
	t.Helper()
	rec := hedged(t, o, endpoints, leases...)
	wantDials(t, rec, endpoints, want)
	return rec
}

// hedged is wantHedged with whatever dials.
func hedged(t *trial, o splice.Options, endpoints []netip.AddrPort, leases ...string) *record.Record {
	t.Helper()
	d := t.start(o)
	var log eventLog
	defer d.Subscribe(log.events())()
	f := d.tcp(endpoints...)
	free := d.Stats().Descriptors
	wantEcho(t, dialTCP(t, f.at), "hello")
	rec := d.record()
	t.eventually("all descriptors are given back", func() bool { return d.Stats().Descriptors == free })
	d.stop()
	wantLeases(t, f, leases...)
	if !slices.Equal(log.attempts, rec.Attempts) {
		t.Errorf("attempts %+v, the record has %+v", log.attempts, rec.Attempts)
	}
	if last := rec.Attempts[len(rec.Attempts)-1]; rec.Endpoint.Addr != last.Endpoint || !rec.Proxy().IsValid() {
		t.Errorf("record %+v", rec)
	}
	return rec
}

// hedgeWins: a dial without an answer has another endpoint dialled, long before its timeout.
func hedgeWins(t *trial) {
	const after = 50 * time.Millisecond
	rec := wantHedged(t, hedging(after, 20_000, 20_000), []netip.AddrPort{silent(t), echoServer(t)},
		"a overtaken, b hedge", wasOvertaken, endedWell)
	if rec.Connect < after || rec.Connect > 10*time.Second || rec.Attempts[0].Took < after {
		t.Errorf("record %+v", rec)
	}
}

// hedgeFails: one that is refused is followed by another at once, and the first dial goes on all the while.
func hedgeFails(t *trial) {
	wantHedged(t, hedging(20*time.Millisecond, 20_000, 20_000, 20_000, 20_000),
		[]netip.AddrPort{silent(t), t.refusing(), t.refusing(), echoServer(t)},
		"b hedge refused, c hedge refused, a overtaken, d hedge", wasOvertaken, wasRefused, wasRefused, endedWell)
}

// hedgeIsHedged: when the first dial has timed out, its hedge goes on alone, and has a hedge in its turn. To a process
// that did not run between the two, the first dial has timed out without a hedge: what follows is none, but has one.
func hedgeIsHedged(t *trial) {
	const (
		after = 200 * time.Millisecond
		late  = "a timeout, b overtaken, c hedge"
	)
	endpoints := []netip.AddrPort{silent(t), silent(t), echoServer(t)}
	for range 10 {
		rec := hedged(t, hedging(after, 300, 20_000, 20_000), endpoints, wasTooSlow, wasOvertaken, endedWell)
		if strings.Join(dialsOf(rec, endpoints...), ", ") == late {
			continue
		}
		wantDials(t, rec, endpoints, "a timeout, b hedge overtaken, c hedge")
		if rec.Connect < 2*after || rec.Attempts[1].Took < after {
			t.Errorf("record %+v", rec)
		}
		return
	}
	t.Error("no first dial had a hedge before it timed out")
}

// hedgesAllTimeOut: each has a timeout of its own, and the connection fails when the last has passed.
func hedgesAllTimeOut(t *trial) {
	d := t.start(hedging(50*time.Millisecond, 400, 500))
	a, b := silent(t), silent(t)
	rec := wantDialFailed(t, d, d.tcp(a, b), 550*time.Millisecond)
	wantDials(t, rec, []netip.AddrPort{a, b}, "a timeout, b hedge timeout")
	if rec.Attempts[0].Took < 400*time.Millisecond || rec.Attempts[1].Took < 500*time.Millisecond ||
		rec.Duration > rec.Attempts[0].Took+rec.Attempts[1].Took {
		t.Errorf("record %+v", rec)
	}
}

// hedgeNotFor: those that have no other dial, no other endpoint, or an endpoint of their own.
func hedgeNotFor(t *trial) {
	const after = time.Millisecond
	t.sub("NoRetries", func(t *trial) {
		d := t.start(hedging(after, 200))
		a := silent(t)
		wantDials(t, wantDialFailed(t, d, d.tcp(a, echoServer(t)), 200*time.Millisecond), []netip.AddrPort{a}, "a timeout")
	})
	t.sub("SingleEndpoint", func(t *trial) {
		d := t.start(hedging(after, 100, 100))
		a := silent(t)
		wantDials(t, wantDialFailed(t, d, d.tcp(a), 200*time.Millisecond), []netip.AddrPort{a}, "a timeout, a timeout")
	})
	t.sub("Affinity", func(t *trial) {
		d := t.start(hedging(after, 200, 20_000))
		endpoints := []netip.AddrPort{silent(t), echoServer(t)}
		f := d.tcp(endpoints...)
		f.ring.bind("hit")
		wantEcho(t, dialTCP(t, f.at), "hello")
		wantDials(t, d.record(), endpoints, "a timeout, b")
	})
}

// hedgeWithoutDescriptor: the socket of a hedge is in the account, and there is no hedge where that has none left.
func hedgeWithoutDescriptor(t *trial) {
	const engineAside = 1 + 2 // a listener and a connection
	own := t.start(splice.Options{}).Stats().Descriptors
	for _, c := range []struct {
		left  int64
		first time.Duration // until the first dial times out, in ms: never before a hedge has its answer
		want  string
	}{{1, 400, "a timeout, b"}, {3, 20_000, "a overtaken, b hedge"}} {
		o := hedging(100*time.Millisecond, c.first, 20_000)
		o.Account = quota.NewAccount(quota.Budget{Descriptors: int(own + engineAside + c.left)})
		d := t.start(o)
		endpoints := []netip.AddrPort{silent(t), echoServer(t)}
		wantEcho(t, dialTCP(t, d.tcp(endpoints...).at), "hello")
		wantDials(t, d.record(), endpoints, c.want)
	}
}

// dialUnderway begins two dials that nobody answers, and returns the client.
func dialUnderway(d *dataPath, f *front) *net.TCPConn {
	d.t.Helper()
	c := dialTCP(d.t, f.at)
	d.t.eventually("two dials are under way", func() bool { return liveOf(d).Attempts == 2 })
	if l := liveOf(d); l.State != record.StateDialing || l.Endpoint.Addr.IsValid() || l.Proxy.IsValid() {
		d.t.Errorf("%+v", l)
	}
	return c
}

// wantGivenUp expects the record of a connection that ended during two dials.
func wantGivenUp(t *trial, d *dataPath, f *front, endpoints []netip.AddrPort, outcome record.Outcome) {
	t.Helper()
	rec := d.record()
	wantDials(t, rec, endpoints, "a given up, b hedge given up")
	if rec.Outcome != outcome || rec.Connect >= 0 || f.Active() != 0 {
		t.Errorf("record %+v", rec)
	}
	d.stop()
	wantLeases(t, f, wasCanceled, wasCanceled)
	if n := d.Stats().Descriptors; n > 1 { // the listener's
		t.Errorf("%d descriptors are left", n)
	}
}

// hedgeEndsWithItsClient: a client that leaves during two dials ends both.
func hedgeEndsWithItsClient(t *trial) {
	d := t.start(hedging(50*time.Millisecond, 20_000, 20_000))
	endpoints := []netip.AddrPort{silent(t), silent(t)}
	f := d.tcp(endpoints...)
	c := dialUnderway(d, f)
	awaitReader()
	reset(c)
	wantGivenUp(t, d, f, endpoints, record.OutcomeClientReset)
}

// hedgeIsCut: so does the end of the data path.
func hedgeIsCut(t *trial) {
	d := t.start(hedging(10*time.Millisecond, 20_000, 20_000))
	endpoints := []netip.AddrPort{silent(t), silent(t)}
	f := d.tcp(endpoints...)
	dialUnderway(d, f)
	d.stop()
	wantGivenUp(t, d, f, endpoints, record.OutcomeCut)
}

// askedOfTheSecond has the host take its time for the question of the second dial, until let is closed.
func askedOfTheSecond(o *splice.Options) (let chan struct{}) {
	let = make(chan struct{})
	var asked atomic.Int32
	o.Policy.ClientAddress = service.AddressTransparent
	o.Returns = func(_, _ netip.Addr, _ int) bool {
		if asked.Add(1) == 2 {
			<-let
		}
		return false
	}
	return let
}

// hedgeWaitsForTheHost: the host is asked about the endpoint of a hedge while the first dial goes on, and fails.
func hedgeWaitsForTheHost(t *trial) {
	o := hedging(50*time.Millisecond, 300, 20_000)
	let := askedOfTheSecond(&o)
	d := t.start(o)
	endpoints := []netip.AddrPort{silent(t), echoServer(t)}
	f := d.tcp(endpoints...)
	c := dialTCP(t, f.at)
	t.eventually("the first dial has timed out", func() bool {
		l := f.ring.given()
		return len(l) == 2 && l[0].dialled()
	})
	close(let)
	wantEcho(t, c, "hello")
	rec := d.record()
	if got := strings.Join(dialsOf(rec, endpoints...), ", "); got != "a timeout, b" { // on a busy machine
		wantDials(t, rec, endpoints, "a timeout, b hedge")
	}
}

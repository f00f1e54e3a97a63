package balance

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/platform/inet"
)

var other = netip.MustParseAddr("10.9.9.9")

// fail has connections fail at an endpoint, whose turn it is now and then, until it was ejected or picked so often.
func fail(t *testing.T, b *Balancer, at netip.AddrPort, kind Failure, most int) (dials int) {
	t.Helper()
	for range 100 * most {
		p := b.Pick(client, nil, byDefault)
		ejected := false
		switch {
		case p.Endpoint.Addr() != at:
			p.Endpoint.Dialled(nil, 0)
			p.Endpoint.Answered()
			p.Endpoint.Ended(client, nil, 0)
			continue
		case kind == Refused:
			ejected = p.Endpoint.Dialled(syscall.ECONNREFUSED, 0)
		case kind == TimedOut:
			ejected = p.Endpoint.Dialled(os.ErrDeadlineExceeded, 0)
		default:
			p.Endpoint.Dialled(nil, 0)
			ejected = p.Endpoint.Ended([]netip.Addr{client, other}[dials%2], syscall.ECONNRESET, -1)
		}
		if dials++; ejected || dials == most {
			return dials
		}
	}
	t.Fatalf("%s was picked %d times", at, dials)
	return 0
}

// works has a connection that was picked go well.
func works(p Picked) {
	p.Endpoint.Dialled(nil, 0)
	p.Endpoint.Answered()
	p.Endpoint.Ended(client, nil, 0)
}

func TestEjection(t *testing.T) {
	for _, kind := range []Failure{Refused, TimedOut, Silent} {
		t.Run(kind.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testEjection(t, kind) }) })
	}
}

func testEjection(t *testing.T, kind Failure) {
	a := endpoints(10)
	b := balancer(a)
	if n := fail(t, b, a[3], kind, 10); n != 3 {
		t.Fatalf("ejected after %d failures", n)
	}
	isOut := func(want bool) {
		t.Helper()
		if got := picks(b, 100); slices.Contains(got, a[3]) == want {
			t.Fatalf("picked: %t, left out: %t", slices.Contains(got, a[3]), want)
		}
	}
	isOut(true)
	for try := range 8 { // each time that a connection has tried it in vain it is left out for twice as long
		most := min(time.Second<<try, time.Minute)
		time.Sleep(most*3/4 - 1)
		isOut(true)
		time.Sleep(most/4 + 1)
		p := b.Pick(client, nil, byDefault)
		if !p.Probe || p.Endpoint.Addr() != a[3] || p.Ejected != 1 {
			t.Fatalf("after %s: %+v", most, p)
		}
		isOut(true) // one connection is enough
		ejected := false
		switch kind {
		case Refused:
			ejected = p.Endpoint.Dialled(syscall.ECONNREFUSED, 0)
		case TimedOut:
			ejected = p.Endpoint.Dialled(os.ErrDeadlineExceeded, 0)
		case Silent:
			p.Endpoint.Dialled(nil, 0)
			isOut(true) // it has taken dials before
			ejected = p.Endpoint.Ended(client, syscall.ECONNRESET, -1)
		}
		if !ejected {
			t.Fatal("a probe that fails does not eject")
		}
	}
	time.Sleep(time.Minute)
	p := b.Pick(client, nil, byDefault)
	if p.Endpoint.Dialled(nil, 0); kind != Silent {
		isOut(false)
	}
	p.Endpoint.Answered()
	counts := map[netip.AddrPort]int{}
	for _, at := range picks(b, 100) {
		counts[at]++
	}
	if counts[a[3]] != 10 {
		t.Errorf("after a probe that worked: %v", counts)
	}
}

// Failures of different kinds, or with a connection in between that worked, are not in a row.
func TestFailuresInARow(t *testing.T) {
	a := endpoints(2)
	b := balancer(a)
	for range 10 {
		fail(t, b, a[0], Refused, 2)
		fail(t, b, a[0], TimedOut, 2)
		fail(t, b, a[0], Silent, 2)
		for range 2 {
			works(b.Pick(client, nil, byDefault))
		}
	}
	if len(b.rotation.leftOut) != 0 {
		t.Error("ejected")
	}
	if all := b.port.all.Ejected(b.port.name); len(all) != 0 {
		t.Errorf("none is ejected, and these are shown: %v", all)
	}
	if n := fail(t, b, a[0], Refused, 10); n != 3 {
		t.Errorf("ejected after %d", n)
	}
	if all := b.port.all.Ejected(b.port.name); len(all) != 1 || !all[a[0]].LeftOut || all[a[0]].For != Refused {
		t.Errorf("one is ejected, and these are shown: %v", all)
	}
}

// A client can make endpoints reset its connections, and so needs more of them.
func TestResetsOfOneClient(t *testing.T) {
	a := endpoints(2)
	b := balancer(a)
	n := 0
	for ; len(b.rotation.leftOut) == 0 && n < 100; n++ {
		p := b.Pick(client, []netip.AddrPort{a[1]}, byDefault)
		p.Endpoint.Dialled(nil, 0)
		p.Endpoint.Ended(client, syscall.ECONNRESET, -1)
	}
	if n != 12 {
		t.Errorf("ejected after %d", n)
	}
}

// No more than half are left out, and if all fail all are used. Further dials go where one works.
func TestNeverMoreThanHalf(t *testing.T) {
	for n, most := range []int{0, 0, 1, 1, 2, 2} {
		if n == 0 {
			continue
		}
		a := endpoints(n)
		b := balancer(a)
		dead := a[:n-1]
		for range 50 {
			for _, at := range dead {
				if p := b.Pick(client, slices.DeleteFunc(slices.Clone(a), func(o netip.AddrPort) bool { return o == at }),
					byDefault); p.Endpoint != nil {
					p.Endpoint.Dialled(syscall.ECONNREFUSED, 0)
				}
			}
		}
		if len(b.rotation.leftOut) != min(most, n-1) || len(b.rotation.active)+len(b.rotation.leftOut) != n {
			t.Errorf("%d of %d dead: %d left out", n-1, n, len(b.rotation.leftOut))
		}
		for range 20 { // whatever was tried first, the second dial is of the one that works
			first := b.Pick(client, nil, byDefault)
			first.Endpoint.Dialled(context.Canceled, 0)
			if first.Endpoint.Addr() == a[n-1] {
				continue
			}
			if p := b.Pick(client, []netip.AddrPort{first.Endpoint.Addr()}, byDefault); p.Endpoint.Addr() != a[n-1] {
				t.Fatalf("%d of %d dead: the second dial is of %s", n-1, n, p.Endpoint.Addr())
			}
		}
		for range 3 {
			if p := b.Pick(client, a[:n-1], byDefault); p.Endpoint.Addr() == a[n-1] {
				p.Endpoint.Dialled(syscall.ECONNREFUSED, 0)
			}
		}
		got := picks(b, n)
		slices.SortFunc(got, netip.AddrPort.Compare)
		if len(b.rotation.leftOut) != 0 || len(slices.Compact(got)) != n {
			t.Errorf("all of %d dead: %d left out, picked %v", n, len(b.rotation.leftOut), got)
		}
	}
}

// The state of an endpoint outlives the list.
func TestEjectionOutlivesTheList(t *testing.T) {
	a := endpoints(4)
	all := NewEndpoints()
	b := New(all, cart, Options{})
	b.SetEndpoints(a)
	fail(t, b, a[0], Refused, 3)
	b.SetEndpoints(a[1:])
	if len(b.rotation.leftOut) != 0 {
		t.Error("an endpoint is left out that is not listed")
	}
	b.SetEndpoints(a)
	if slices.Contains(picks(b, 40), a[0]) {
		t.Error("an endpoint that was ejected takes part again because it was not listed for a moment")
	}
	b.SetEndpoints(a[:1])
	if got := picks(b, 1); got[0] != a[0] {
		t.Error("the last one is left out")
	}
	b.Close()
	wantKept(t, all, 0, 0)
	if n := all.ejecting.n.Load(); n != 0 {
		t.Errorf("%d are ejected of no service port", n)
	}
}

// Endpoints that come, fail and go are not kept for ever.
func TestEjectedThatAreGoneAreBounded(t *testing.T) {
	all := NewEndpoints()
	b := New(all, cart, Options{})
	for i := range 1000 {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}), 80)
		b.SetEndpoints([]netip.AddrPort{at})
		for range 3 {
			b.Pick(client, nil, byDefault).Endpoint.Dialled(errRefused, 0)
		}
	}
	if n := len(b.port.endpoints); n > maxGone+2 || int(all.ejecting.n.Load()) != len(b.port.ejected) {
		t.Errorf("%d endpoints are kept, %d ejected of %d", n, len(b.port.ejected), all.ejecting.n.Load())
	}
}

func TestEjectionCanBeTurnedOff(t *testing.T) {
	a := endpoints(4)
	b := balancer(a)
	never := *byDefault
	never.EjectAfter = -1
	fail(t, b, a[0], Refused, 3)
	b.Pick(client, nil, &never)
	if len(b.rotation.leftOut) != 0 {
		t.Error("turned off, and one is left out")
	}
	for range 100 {
		b.Pick(client, nil, &never).Endpoint.Dialled(errRefused, 0)
	}
	if len(b.rotation.leftOut) != 0 || b.port.all.ejecting.n.Load() != 0 {
		t.Error("turned off, and endpoints are ejected")
	}
}

// A session of UDP tells nothing of its endpoint before there is an answer.
func TestEjectionOfUDP(t *testing.T) {
	name := cart
	name.Protocol = inet.UDP
	b := New(NewEndpoints(), name, Options{})
	a := endpoints(2)
	b.SetEndpoints(a)
	for range 3 {
		p := b.Pick(client, a[1:], byDefault)
		p.Endpoint.Dialled(nil, 0)
		p.Endpoint.Ended(client, syscall.ECONNREFUSED, -1)
	}
	if len(b.rotation.leftOut) != 1 {
		t.Fatal("an endpoint that refuses is not ejected")
	}
	p := b.Pick(client, a[1:], byDefault)
	p.Endpoint.Dialled(nil, 0)
	if len(b.rotation.leftOut) != 1 {
		t.Error("it takes part because it was sent to")
	}
	if p.Endpoint.Answered(); len(b.rotation.leftOut) != 0 {
		t.Error("it does not take part although it has answered")
	}
}

// A client whose endpoint is ejected moves to another, and stays there.
func TestEjectionMovesBoundClients(t *testing.T) {
	a := endpoints(4)
	b := bound(time.Hour, a)
	pick(t, b, address(1), nil, a[0], Fresh)
	for range 3 {
		b.Pick(address(2), twice(a[1:]), byDefault).Endpoint.Dialled(errRefused, 0)
	}
	p := b.Pick(address(1), nil, byDefault)
	if p.Affinity != Moved || p.Endpoint.Addr() == a[0] {
		t.Errorf("got %+v", p)
	}
	if again := b.Pick(address(1), nil, byDefault); again.Affinity != Hit || again.Endpoint != p.Endpoint {
		t.Errorf("got %+v", again)
	}
}

// A client that is bound is no probe: one that is bound to none is.
func TestProbeIsOfAnUnboundClient(t *testing.T) { synctest.Test(t, testProbeIsOfAnUnboundClient) }

func testProbeIsOfAnUnboundClient(t *testing.T) {
	a := endpoints(4)
	b := bound(time.Hour, a)
	pick(t, b, address(1), nil, a[0], Fresh)
	for range 3 {
		b.Pick(address(2), twice(slices.Delete(slices.Clone(a), 1, 2)), byDefault).Endpoint.Dialled(errRefused, 0)
	}
	time.Sleep(firstBan)
	for range 3 {
		if p := b.Pick(address(1), nil, byDefault); p.Probe || p.Affinity != Hit {
			t.Fatalf("a client that is bound: %+v", p)
		}
	}
	if p := b.Pick(address(9), nil, byDefault); !p.Probe || p.Endpoint.Addr() != a[1] || p.Affinity != Fresh {
		t.Errorf("a client that is bound to none: %+v", p)
	}
}

// The floor: one of ten endpoints is a black hole for ten seconds at a thousand connections a second.
func TestBlackHoleCostsLittle(t *testing.T) { synctest.Test(t, testBlackHoleCostsLittle) }

func testBlackHoleCostsLittle(t *testing.T) {
	a := endpoints(10)
	b := balancer(a)
	wait, n := 0, 0
	for range 10_000 {
		time.Sleep(time.Millisecond)
		n++
		if p := b.Pick(client, nil, byDefault); p.Endpoint.Addr() != a[0] {
			works(p)
		} else if wait++; !p.Endpoint.Dialled(os.ErrDeadlineExceeded, 0) && wait >= 3 {
			t.Fatalf("not ejected by failure %d", wait)
		}
	}
	if share := float64(wait-3) / float64(n); share >= 0.005 {
		t.Errorf("%d of %d connections waited", wait, n)
	}
}

func TestBudget(t *testing.T) { synctest.Test(t, testBudget) }

func testBudget(t *testing.T) {
	b := balancer(endpoints(2))
	retries := func() (n int) {
		for b.MayRetry(byDefault) {
			if n++; n > 10_000 {
				t.Fatal("there is no bound")
			}
		}
		return n
	}
	if n := retries(); n != 100 {
		t.Errorf("%d at the beginning", n)
	}
	for range 1000 {
		b.Pick(client, nil, byDefault)
	}
	if n := retries(); n < 199 || n > 200 {
		t.Errorf("%d for 1000 connections", n)
	}
	time.Sleep(time.Second)
	if n := retries(); n != 10 {
		t.Errorf("%d after a second", n)
	}
	for range 1000 { // those that work cost nothing
		b.Retried()
		if !b.MayRetry(byDefault) {
			t.Fatal("a dial that worked is not given back")
		}
	}
	if retries() != 0 {
		t.Error("giving back makes more")
	}
	for range 1000 {
		b.Pick(client, nil, byDefault)
	}
	time.Sleep(time.Hour)
	if n := retries(); n != 100 {
		t.Errorf("%d after an hour", n)
	}
	for range 100 { // evenly, up to now, without a failure: the last ten seconds count
		time.Sleep(time.Second)
		for range 50 {
			b.Pick(client, nil, byDefault)
		}
	}
	if n := retries(); n < 190 || n > 210 {
		t.Errorf("%d with 50 connections a second", n)
	}
	unlimited := *byDefault
	unlimited.RetryBudget = -1
	if !b.MayRetry(&unlimited) {
		t.Error("no limit limits")
	}
}

// slow is a timeout that is no net.Error.
type slow struct{}

func (slow) Error() string { return "timeout" }
func (slow) Timeout() bool { return true }

func TestTimeouts(t *testing.T) {
	for err, want := range map[error]bool{
		os.ErrDeadlineExceeded: true, slow{}: true, syscall.ETIMEDOUT: true, syscall.ECONNREFUSED: false,
		errors.New("timeout"): false,
	} {
		if isTimeout(err) != want {
			t.Errorf("%v: %t", err, !want)
		}
	}
}

// That an endpoint is ejected and back is told, once each, and nobody waits for a reader.
func TestEjectionEvents(t *testing.T) {
	a := endpoints(10)
	b := balancer(a)
	all := b.port.all
	fail(t, b, a[3], Refused, 10)
	n := <-all.EjectionEvents()
	if n.Addr != a[3] || n.Back || n.Why != Refused || !errors.Is(n.Err, syscall.ECONNREFUSED) {
		t.Errorf("%+v", n)
	}
	e := b.Join(a[3])
	e.Dialled(nil, 0)
	if n := <-all.EjectionEvents(); n.Addr != a[3] || !n.Back || n.Name != b.port.name {
		t.Errorf("%+v", n)
	}
	for range mostEjectionEvents {
		fail(t, b, a[3], Refused, 10)
		b.Join(a[3]).Dialled(nil, 0)
	}
	if n := all.MissedEjections(); n != mostEjectionEvents || all.MissedEjections() != 0 {
		t.Errorf("%d are missed", n)
	}
}

package quota

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// A pace lets through a second's worth at once, and then exactly its rate, whatever the rate and however clients try.
func TestPaceKeepsItsRate(t *testing.T) {
	for _, rate := range []int{1, 3, 10, 1000} {
		var p pace
		began := 0
		try := func(now time.Duration) {
			if next, ok := p.next(now, rate); ok {
				p = next
				began++
			}
		}
		for range 2 * rate {
			try(time.Hour)
		}
		if began != rate {
			t.Errorf("%d a second: %d at once", rate, began)
		}
		const seconds = 10
		step := time.Second / time.Duration(4*rate)
		for now := time.Hour; now <= time.Hour+seconds*time.Second; now += step {
			try(now)
		}
		if want := rate + seconds*rate; began > want || began < want-1 { // the last may be due just after
			t.Errorf("%d a second: %d in %d s, want %d", rate, began, seconds, want)
		}
		if next, ok := p.next(0, rate); ok || next < p {
			t.Errorf("%d a second: a clock that goes back lets one through", rate)
		}
	}
}

// A flood of forged addresses takes no more than so much memory, keeps nobody out, and is forgotten soon after.
func TestFloodOfClientsIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r, limits := &Rates{}, &service.Shares{ConnectionRatePerClient: 1}
		begin := func(client netip.Addr) record.Outcome {
			_, o := r.Enter(limits, client, time.Since(start), func() record.Outcome { return "" })
			return o
		}
		honest := netip.MustParseAddr("192.0.2.1")
		for i := range 5 * mostRecent {
			if i%1000 == 0 {
				time.Sleep(time.Millisecond)
			}
			forged := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			if o := begin(forged); o != "" {
				t.Fatalf("address %d of the flood: %s", i, o)
			}
			if i%mostRecent == 0 {
				begin(honest)
			}
			if n, _ := remembered(r); n > 2*mostRecent {
				t.Fatalf("%d clients are remembered", n)
			}
		}
		if o := begin(netip.MustParseAddr("192.0.2.2")); o != "" {
			t.Errorf("a new client is refused: %s", o)
		}
		time.Sleep(3 * time.Second)
		if n, aging := remembered(r); n != 0 || aging || r.recent != nil || r.older != nil {
			t.Errorf("%d clients are remembered after 3 s", n)
		}
	})
}

func remembered(r *Rates) (clients int, aging bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.recent) + len(r.older), r.aging
}

// Who began one within the last second is remembered, at whatever moment of it others are forgotten.
func TestClientsAreRememberedForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, r, client := time.Now(), &Rates{}, netip.MustParseAddr("192.0.2.1")
		other := netip.MustParseAddr("192.0.2.2")
		r.mu.Lock()
		r.note(other, 0)
		r.mu.Unlock()
		time.Sleep(700 * time.Millisecond)
		for i := range 100 {
			r.mu.Lock()
			after, ok := r.paceOf(client).next(time.Since(start), 1)
			if ok {
				r.note(client, after)
			}
			r.note(other, pace(time.Since(start)))
			r.mu.Unlock()
			if want := i%5 == 0; ok != want {
				t.Fatalf("after %s: let through %t", time.Since(start), ok)
			}
			time.Sleep(200*time.Millisecond + 1)
		}
	})
}

package crash

import (
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/proxy/record"
)

var endpoint = netip.MustParseAddrPort("10.244.0.2:8080")

// told is how a connection was reported.
type told struct{ times, crashed atomic.Int32 }

func (o *told) Report(_ *record.Record, crashed bool) {
	o.times.Add(1)
	if crashed {
		o.crashed.Add(1)
	}
}

// closes has the endpoint close so many connections, a while after each other, which end then.
func closes(d *Detector, n int, after time.Duration, unanswered bool) *told {
	o := &told{}
	for i := range n {
		d.Ended(d.Closed(endpoint, time.Duration(i)*after, unanswered, o), &record.Record{})
	}
	return o
}

// What the next dial does not decide is decided by time: by more of it where a crash is likely.
func TestPatience(t *testing.T) {
	for name, test := range map[string]struct {
		n          int
		after      time.Duration
		unanswered bool
		patience   time.Duration
	}{
		"one":                     {1, 0, false, burstTime},
		"two":                     {2, 0, false, burstTime},
		"a burst":                 {3, burstTime / 2, false, nextDialTime},
		"one after the other":     {5, burstTime, false, burstTime},
		"one that was unanswered": {1, 0, true, nextDialTime},
	} {
		t.Run(name, func(t *testing.T) {
			d := New(func() time.Duration { return 0 }) // timers decide nothing
			o := closes(d, test.n, test.after, test.unanswered)
			last := time.Duration(test.n-1) * test.after
			d.sweep(test.patience - 1)
			if n := o.times.Load(); n != 0 {
				t.Errorf("%d are known too early", n)
			}
			d.sweep(last + test.patience)
			if n := o.times.Load(); int(n) != test.n || o.crashed.Load() != 0 || d.open.Load() != 0 {
				t.Errorf("%d are known, %d of a crash, %d open", n, o.crashed.Load(), d.open.Load())
			}
		})
	}
}

func TestDials(t *testing.T) {
	now := time.Duration(0)
	for name, test := range map[string]struct {
		dial    record.Attempt
		known   int32
		crashed int32
	}{
		"refused":              {record.Attempt{Endpoint: endpoint, Err: syscall.ECONNREFUSED.Error()}, 3, 3},
		"worked":               {record.Attempt{Endpoint: endpoint}, 3, 0},
		"worked, begun before": {record.Attempt{Endpoint: endpoint, Took: time.Second}, 0, 0},
		"timed out":            {record.Attempt{Endpoint: endpoint, Err: record.TimedOut}, 0, 0},
		"refused, of another":  {record.Attempt{Err: syscall.ECONNREFUSED.Error()}, 0, 0},
		"overtaken by another": {record.Attempt{Endpoint: endpoint, Err: record.Overtaken}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := New(func() time.Duration { return now })
			o := closes(d, 3, 0, false)
			d.Dialled(&test.dial)
			if o.times.Load() != test.known || o.crashed.Load() != test.crashed {
				t.Errorf("%d are known, %d of a crash", o.times.Load(), o.crashed.Load())
			}
			d.End()
			if n := o.times.Load(); n != 3 {
				t.Errorf("%d are known at the end", n)
			}
			if d.Closed(endpoint, now, true, o) != nil {
				t.Error("something is suspected after the end")
			}
		})
	}
}

// A connection that ends later than it is known is reported then.
func TestEndsLater(t *testing.T) {
	d, o := New(func() time.Duration { return 0 }), &told{}
	s := d.Closed(endpoint, 0, false, o)
	d.Dialled(&record.Attempt{Endpoint: endpoint, Err: syscall.ECONNREFUSED.Error()})
	if o.times.Load() != 0 {
		t.Error("it was reported before it ended")
	}
	d.Ended(s, &record.Record{})
	if o.crashed.Load() != 1 {
		t.Error("it was not closed early")
	}
}

// What one endpoint takes leaves room for others.
func TestBounded(t *testing.T) {
	d, o := New(func() time.Duration { return 0 }), &told{}
	at := func(i int) netip.AddrPort { return netip.AddrPortFrom(endpoint.Addr(), uint16(i+1)) }
	for i := range mostSuspects / mostOfOne {
		for range mostOfOne {
			if d.Closed(at(i), 0, true, o) == nil {
				t.Fatal("too little is suspected")
			}
		}
		if d.Closed(at(i), 0, true, o) != nil {
			t.Fatal("too much is suspected of one endpoint")
		}
	}
	if d.Closed(endpoint, 0, true, o) != nil {
		t.Error("too much is suspected")
	}
}

// A close that is noticed just after the refused dial is of the same crash, unless a dial has worked since.
func TestNoticedLate(t *testing.T) {
	for name, test := range map[string]struct {
		works   bool
		after   time.Duration
		crashed int32
	}{
		"at once":              {false, 0, 1},
		"late":                 {false, lateTime, 0},
		"after one that works": {true, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := New(func() time.Duration { return 0 }), &told{}
			d.Dialled(&record.Attempt{Endpoint: endpoint, Err: syscall.ECONNREFUSED.Error()})
			if test.works {
				d.Dialled(&record.Attempt{Endpoint: endpoint})
			}
			d.Ended(d.Closed(endpoint, test.after, false, o), &record.Record{})
			d.sweep(test.after + nextDialTime)
			if o.times.Load() != 1 || o.crashed.Load() != test.crashed || d.open.Load() != 0 {
				t.Errorf("%d are known, %d of a crash, %d open", o.times.Load(), o.crashed.Load(), d.open.Load())
			}
		})
	}
}

package balance

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Statistics of an endpoint have what leases report.
func TestStatistics(t *testing.T) {
	all := NewEndpoints()
	b := New(all, cart, Options{})
	b.SetEndpoints(endpoints(1))
	if s := all.Statistics(cart, 0.5); len(s) != 0 {
		t.Errorf("before the first pick: %+v", s)
	}
	for range 3 {
		e := pickOne(t, b)
		e.Dialled(nil, 2*time.Millisecond)
		e.Ended(client, nil, 30*time.Millisecond)
	}
	pickOne(t, b).Dialled(context.Canceled, time.Hour)
	pickOne(t, b).Dialled(errRefused, time.Hour)
	silent := pickOne(t, b)
	silent.Dialled(nil, 2*time.Millisecond)
	reset := errors.New("connection reset by peer")
	silent.Ended(client, reset, -1)
	pickOne(t, b).Dialled(nil, 2*time.Millisecond)
	s := all.Statistics(cart, 0.5, 0.99)[0]
	if s.Address != silent.Addr() || s.Open != 1 || s.Dials != 6 || s.Failures != 2 || s.LastError != reset ||
		time.Since(s.LastFailure) > time.Minute {
		t.Errorf("%+v", s)
	}
	near := func(of []time.Duration, want time.Duration) bool {
		return len(of) == 2 && of[0] > want/2 && of[1] >= of[0] && of[1] < 2*want
	}
	if !near(s.Dial, 2*time.Millisecond) || !near(s.FirstByte, 30*time.Millisecond) {
		t.Errorf("dials %v, first bytes %v", s.Dial, s.FirstByte)
	}
	other := cart
	other.Name = "other"
	if s := all.Statistics(other, 0.5); len(s) != 0 {
		t.Errorf("of another service port: %+v", s)
	}
}

// BenchmarkLease measures the cost of a connection here: a pick, a dial and an end.
func BenchmarkLease(b *testing.B) {
	all := balancer(endpoints(10))
	for range b.N {
		e := all.Pick(client, nil, byDefault).Endpoint
		e.Dialled(nil, time.Millisecond)
		e.Ended(client, nil, time.Millisecond)
	}
}

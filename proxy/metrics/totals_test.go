package metrics

import (
	"slices"
	"testing"
	"time"

	"github.com/portald/portald/proxy/record"
)

// The totals of a service port have its retries, and how long endpoints took, which can be added up over nodes.
func TestTotals(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4")
	if got := m.Totals(cart); got.FirstByte.Counts != nil {
		t.Errorf("before the first connection: %+v", got)
	}
	r := sample() // one of its dials failed; 0.7 ms passed from the connect until the first byte
	r.Replays = 2
	observe(m, r)
	late := sample()
	late.Outcome, late.FirstByte = record.OutcomeEndpointReset, time.Minute
	observe(m, late)
	got := m.Totals(cart)
	if got.Ended != 2 || got.Failed != 1 || got.FailedDials != 2 || got.Replays != 2 {
		t.Errorf("%+v", got)
	}
	if want := []uint64{1, 0, 0, 0, 0, 0, 0, 0, 1}; !slices.Equal(got.FirstByte.Counts, want) ||
		len(got.FirstByte.Bounds) != len(want)-1 || got.FirstByte.Bounds[0] != time.Millisecond {
		t.Errorf("%+v", got.FirstByte)
	}
}

package webui

import (
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	bounds := []float64{1, 10}
	for _, test := range []struct {
		counts []uint64
		ms     float64
		beyond bool
		any    bool
	}{{nil, 0, false, false}, {[]uint64{0, 0, 0}, 0, false, false}, {[]uint64{99, 1, 0}, 1, false, true},
		{[]uint64{98, 2, 0}, 10, false, true}, {[]uint64{50, 48, 2}, 10, true, true}} {
		if ms, beyond, any := quantile(0.99, bounds, test.counts); ms != test.ms || beyond != test.beyond || any != test.any {
			t.Errorf("%v: %v %v %v", test.counts, ms, beyond, any)
		}
	}
}

// A history has the last five minutes, and what is older is gone.
func TestHistory(t *testing.T) {
	h, now := &history{}, time.Unix(1_000_000, 0)
	h.at(now.Add(-past)).failed = 7
	h.at(now.Add(-past + interval)).failed = 1
	h.at(now).failed = 2
	got := h.series(now, func(p *point) uint32 { return p.failed })
	if got[0] != 1 || got[intervals-1] != 2 || sum(got) != 3 {
		t.Errorf("%v", got)
	}
	h.spread(now.Add(-3*interval), now, 7, func(p *point, n uint32) { p.retries += n })
	h.spread(now, now, 1, func(p *point, n uint32) { p.retries += n })
	h.spread(now.Add(-time.Hour), now, 0, func(p *point, n uint32) { p.retries += n })
	got = h.series(now, func(p *point) uint32 { return p.retries })
	if got[intervals-4] != 0 || got[intervals-3] != 2 || got[intervals-2] != 2 || got[intervals-1] != 4 {
		t.Errorf("%v", got)
	}
	h.at(now).firstByte = []uint64{1, 2}
	h.at(now.Add(-interval)).firstByte = []uint64{3, 4}
	if all := h.firstByte(now); all[0] != 4 || all[1] != 6 || h.at(now).firstByte[0] != 1 {
		t.Errorf("%v", all)
	}
}

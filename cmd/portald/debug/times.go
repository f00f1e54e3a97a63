package debug

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
)

// Times are times in milliseconds. All count; of very many a sample by chance is kept, for the percentiles.
type Times struct {
	n    int
	most float64
	kept []float64
}

// mostTimes is how many are kept: those of one endpoint take 32 KB.
const mostTimes = 4096

func (t *Times) add(ms float64) {
	t.n++
	t.most = max(t.most, ms)
	if len(t.kept) < mostTimes {
		t.kept = append(t.kept, ms)
	} else if at := rand.IntN(t.n); at < mostTimes {
		t.kept[at] = ms
	}
}

// percentile is the time that so many in a hundred do not exceed, one of those that were; false: there is none.
func (t *Times) percentile(p float64) (ms float64, any bool) {
	if len(t.kept) == 0 {
		return 0, false
	}
	all := slices.Sorted(slices.Values(t.kept))
	return all[max(int(math.Ceil(p/100*float64(len(all))))-1, 0)], true
}

// MarshalJSON implements json.Marshaler.
func (t *Times) MarshalJSON() ([]byte, error) {
	out := struct {
		Count  int      `json:"count"`
		Sample int      `json:"sample"` // of how many the percentiles are
		P50    *float64 `json:"p50_ms"`
		P99    *float64 `json:"p99_ms"`
		Max    *float64 `json:"max_ms"`
	}{Count: t.n, Sample: len(t.kept)}
	if p50, any := t.percentile(50); any {
		p99, _ := t.percentile(99)
		out.P50, out.P99, out.Max = &p50, &p99, &t.most
	}
	return json.Marshal(out)
}

package adminsocket

import (
	"cmp"
	"slices"
)

// AddUp adds up histograms, each of which may be nil. Those of another version may have other bounds: they are left
// out.
func AddUp(a, b *Histogram) *Histogram {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	if !slices.Equal(a.BoundsMS, b.BoundsMS) || len(a.Counts) != len(b.Counts) {
		return a
	}
	both := &Histogram{BoundsMS: a.BoundsMS, Counts: slices.Clone(a.Counts)}
	for i, n := range b.Counts {
		both.Counts[i] += n
	}
	return both
}

// Quantile is the duration in milliseconds that a part of all, from 0 to 1, does not exceed, as exact as the bounds
// are; nil: nothing was counted. Of what is longer than the last bound it is that.
func (h *Histogram) Quantile(part float64) *float64 {
	total := uint64(0)
	for _, n := range h.Counts {
		total += n
	}
	if total == 0 || len(h.BoundsMS) == 0 || len(h.Counts) != len(h.BoundsMS)+1 {
		return nil
	}
	rank, below, from := max(part*float64(total), 1), uint64(0), 0.0
	for i, to := range h.BoundsMS {
		if n := h.Counts[i]; float64(below+n) >= rank {
			ms := from + (rank-float64(below)-0.5)/float64(n)*(to-from)
			return &ms
		}
		below, from = below+h.Counts[i], to
	}
	return &from
}

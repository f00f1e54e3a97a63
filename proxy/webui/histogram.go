package webui

import "slices"

// quantile returns the bound that so many of the counted durations did not exceed. beyond: they exceeded the last
// bound, which is returned. Without any there is none.
func quantile(q float64, bounds []float64, counts []uint64) (ms float64, beyond, any bool) {
	total := uint64(0)
	for _, n := range counts {
		total += n
	}
	if total == 0 || len(bounds) == 0 {
		return 0, false, false
	}
	seen, last := uint64(0), len(bounds)-1
	for i, n := range counts {
		if seen += n; float64(seen) >= q*float64(total) {
			return bounds[min(i, last)], i > last, true
		}
	}
	return bounds[last], true, true
}

// add adds counts of the same bounds.
func add(to, more []uint64) []uint64 {
	if to == nil {
		return slices.Clone(more)
	}
	for i := range min(len(to), len(more)) {
		to[i] += more[i]
	}
	return to
}

// grownBy is how much a count that only grows has grown; one that is smaller began again from zero, with its daemon.
func grownBy(before, now uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

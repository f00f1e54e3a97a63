//go:build linux

package main

import (
	"fmt"
	"slices"
)

// samples hold a figure of each round: samples[workload][competitor][figure].
type samples map[string]map[string]map[string][]float64

// results are the samples and failures of a run.
type results struct {
	Samples samples
	Errors  []failure
}

// failure is the error that excluded a competitor from a workload.
type failure struct{ Workload, Competitor, Error string }

func (f failure) String() string { return fmt.Sprintf("%s, %s: %s", f.Workload, f.Competitor, f.Error) }

func (r *results) add(w workload, c competitor, f figures, err error) {
	if err != nil {
		r.Errors = append(r.Errors, failure{w.name, c.name, err.Error()})
		return
	}
	for name, v := range f {
		r.Samples.add(w.name, c.name, name, v)
	}
}

func (s samples) add(w, c, figure string, v float64) {
	if s[w] == nil {
		s[w] = map[string]map[string][]float64{}
	}
	if s[w][c] == nil {
		s[w][c] = map[string][]float64{}
	}
	s[w][c][figure] = append(s[w][c][figure], v)
}

func (r *results) out(w workload, c competitor) bool {
	return slices.ContainsFunc(r.Errors, func(f failure) bool { return f.Workload == w.name && f.Competitor == c.name })
}

// median is the median of the samples, 0 without samples.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(all))
	return (s[len(s)/2] + s[(len(s)-1)/2]) / 2
}

// ratios are computed within each round, between measurements close in time.
func ratios(a, b []float64) []float64 {
	var all []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			all = append(all, a[i]/b[i])
		}
	}
	return all
}

//go:build linux

package main

import "fmt"

// floor is what portald has to reach, as a figure of its own or as a ratio to a competitor's.
type floor struct {
	workload, figure string
	against          string // competitor; none: the figure itself
	bound            float64
	most             bool // the bound is the most there may be, and not the least
	strict           bool // the bound itself is not enough
}

func floors() []floor {
	return []floor{
		{"bulk1", "gbps", "haproxy-splice", 1.3, false, false},
		{"bulk1", "cpu", "haproxy-splice", 0.5, true, false},
		{"bulk1", "gbps", "dnat", 1, false, true},
		{"bulk8", "gbps", "haproxy-splice", 1.2, false, false},
		{"rr1", "rate", "haproxy-splice", 1.1, false, false},
		{"rr1", "rate", "haproxy", 1.1, false, false},
		{"rr64", "rate", "haproxy-splice", 0.9, false, false},
		{"rr64", "rate", "haproxy", 0.9, false, false},
		{"crr", "rate", "haproxy-splice", 0.8, false, false},
		{"crr", "rate", "haproxy", 0.8, false, false},
		{"udprr", "rate", "dnat", 0.42, false, false},
		{"udpnew", "rate", "dnat", 0.4, false, false},
		{"idle", "kB", "", 8, true, false},
		{"idle", "fds", "", 2, true, false},
		{"crr10000", "ratio", "", 0.9, false, false},
		{"sync1000", "first", "", 500, true, true},
		{"sync10000", "first", "", 3000, true, true},
		{"sync1000", "endpoints", "", 1, true, true},
		{"sync10000", "endpoints", "", 1, true, true},
		{"sync10000", "service", "", 60, true, true},
	}
}

// holds tells whether a value keeps the floor.
func (f floor) holds(v float64) bool {
	switch {
	case f.most && f.strict:
		return v < f.bound
	case f.most:
		return v <= f.bound
	case f.strict:
		return v > f.bound
	}
	return v >= f.bound
}

func (f floor) String() string {
	sign := map[[2]bool]string{{false, false}: "≥", {false, true}: ">", {true, false}: "≤", {true, true}: "<"}[[2]bool{f.most, f.strict}]
	if f.against == "" {
		return fmt.Sprintf("%s %g", sign, f.bound)
	}
	return fmt.Sprintf("%s %g ×", sign, f.bound)
}

// value is the median of portald's figure, or of its ratios to the competitor's in the same round. False: not measured.
func (f floor) value(r samples) (float64, bool) {
	own := r[f.workload]["portald"][f.figure]
	if f.against == "" {
		return median(own), len(own) > 0
	}
	ratios := ratios(own, r[f.workload][f.against][f.figure])
	return median(ratios), len(ratios) > 0
}

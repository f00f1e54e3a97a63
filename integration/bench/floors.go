//go:build linux

package main

import (
	"fmt"
	"slices"
)

// floor is a bound for a figure of portald, or for its ratio to another figure.
type floor struct {
	workload, figure string
	of               string // mode of portald; none: userspace mode
	engine           string // engine of portald; none: automatic
	against          string // competitor: the bound is for the ratio to its figure
	beside           string // workload: the bound is for the ratio to the figure there
	bound            float64
	most             bool // the bound is a maximum; otherwise a minimum
	strict           bool // the bound itself does not satisfy the floor
}

func atLeast(bound float64, workload, figure string) floor {
	return floor{workload: workload, figure: figure, bound: bound}
}

func atMost(bound float64, workload, figure string) floor {
	return floor{workload: workload, figure: figure, bound: bound, most: true}
}

func above(bound float64, workload, figure string) floor {
	return floor{workload: workload, figure: figure, bound: bound, strict: true}
}

func below(bound float64, workload, figure string) floor {
	return floor{workload: workload, figure: figure, bound: bound, most: true, strict: true}
}

// times applies the bound to the ratio to a competitor's figure.
func (f floor) times(competitor string) floor {
	f.against = competitor
	return f
}

// timesAt applies the bound to the ratio to the figure of another workload.
func (f floor) timesAt(workload string) floor {
	f.beside = workload
	return f
}

func (f floor) in(mode string) floor {
	f.of = mode
	return f
}

func (f floor) on(engine string) floor {
	f.engine = engine
	return f
}

// subject is the portald that the floor is for.
func (f floor) subject() competitor {
	if f.engine != "" {
		return portaldIn(f.of).on(f.engine)
	}
	return portaldIn(f.of)
}

func floors() []floor {
	return slices.Concat([]floor{
		atLeast(1.3, "bulk1", "gbps").times("haproxy-splice"),
		atMost(0.5, "bulk1", "cpu").times("haproxy-splice"),
		above(1, "bulk1", "gbps").times("dnat"),
		atLeast(1.2, "bulk8", "gbps").times("haproxy-splice"),
		atLeast(1.1, "down1", "gbps").times("dnat"),
		atLeast(1.1, "down8", "gbps").times("dnat"),
		atMost(1, "beside32", "p99").times("haproxy-splice"),
		atMost(1, "beside128", "p99").times("haproxy-splice"),
		atLeast(1.1, "rr1", "rate").times("haproxy-splice"),
		atLeast(1.1, "rr1", "rate").times("haproxy"),
		atLeast(0.9, "rr64", "rate").times("haproxy-splice"),
		atLeast(0.9, "rr64", "rate").times("haproxy"),
		atLeast(0.8, "crr", "rate").times("haproxy-splice"),
		atLeast(0.8, "crr", "rate").times("haproxy"),
		atLeast(0.42, "udprr", "rate").times("dnat"),
		atLeast(0.4, "udpnew", "rate").times("dnat"),
		atLeast(0.4, "udpgso", "rate").times("dnat"),
		atMost(0.6, "udpgso", "cpu"),
		atMost(2.5, "udpbulk", "cpu"),
		atLeast(0.95, "tail", "ratio"),
		atMost(8, "idle", "kB"),
		atMost(2, "idle", "fds"),
		atLeast(0.9, "crr10000", "ratio"),
		below(500, "sync1000", "first"),
		below(3000, "sync10000", "first"),
		below(1, "sync1000", "endpoints"),
		below(1, "sync10000", "endpoints"),
		below(60, "sync10000", "service"),
		atLeast(0.8, "engine-bulk1", "gbps").on("goroutine").times("portald"),
		atLeast(0.8, "engine-bulk8", "gbps").on("goroutine").times("portald"),
		atLeast(0.5, "engine-beside32", "rate").on("goroutine").times("portald"),
		atLeast(0.8, "engine-rr1-together", "rate").on("goroutine").times("portald"),
		atLeast(0.8, "engine-rr1-near", "rate").on("goroutine").times("portald"),
		atLeast(0.8, "engine-rr1-apart", "rate").on("goroutine").times("portald"),
	}, recordFloors(), kernelFloors("iptables", 50), kernelFloors("nftables", 1))
}

// recordFloors are those of portald with records against itself without any: they cost at most a twentieth.
func recordFloors() (all []floor) {
	without := withoutRecords().name
	for _, w := range trafficWorkloads() {
		rate := w.figures[0].name
		all = append(all, atLeast(0.95, w.name, rate).times(without), atMost(1.05, w.name, "cpu").times(without))
	}
	return all
}

// kernelFloors lists the floors of a kernel mode: a change takes at most some milliseconds, at any number of Services.
func kernelFloors(mode string, change float64) []floor {
	return []floor{
		below(change, "kernel10000", "endpoints").in(mode),
		below(change, "kernel10000", "service").in(mode),
		atMost(2, "kernel30000", "endpoints").timesAt("kernel1000").in(mode),
		atMost(2, "kernel30000", "service").timesAt("kernel1000").in(mode),
		atLeast(0.9, "connect10000", "rate").timesAt("connect1").in(mode),
	}
}

// satisfied tells whether a value satisfies the floor.
func (f floor) satisfied(v float64) bool {
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
	sign := map[[2]bool]string{{false, false}: "≥", {false, true}: ">", {true, false}: "≤",
		{true, true}: "<"}[[2]bool{f.most, f.strict}]
	if !f.ratio() {
		return fmt.Sprintf("%s %g", sign, f.bound)
	}
	return fmt.Sprintf("%s %g ×", sign, f.bound)
}

// ratio tells whether the bound applies to a ratio.
func (f floor) ratio() bool { return f.against != "" || f.beside != "" }

// value is the median of portald's figure, or of its ratios to the other figure of the same round. False: not measured.
func (f floor) value(r samples) (float64, bool) {
	name := f.subject().name
	own := r[f.workload][name][f.figure]
	switch {
	case f.against != "":
		own = ratios(own, r[f.workload][f.against][f.figure])
	case f.beside != "":
		own = ratios(own, r[f.beside][name][f.figure])
	}
	return median(own), len(own) > 0
}

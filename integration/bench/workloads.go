//go:build linux

package main

import (
	"context"
	"net/netip"
	"slices"
)

// figure is one measured quantity of a workload.
type figure struct {
	name   string // unique within the workload
	label  string
	digits int // after the point
}

type figures map[string]float64

// workload is one thing to measure on each competitor that takes part.
type workload struct {
	name, label string
	among       func(c competitor) bool
	most        int    // maximum number of rounds, for slow workloads with little variance (1 in a quick run); 0: no limit
	long        bool   // excluded from quick runs
	services    int    // number of Services, by which the figures of kernel modes are listed; 0: not a kernel workload
	placed      bool   // client, proxy and server run on processors that are chosen
	engines     bool   // in the part of the report on portald's engines
	group       string // workloads of a group are compared with each other: their rounds are interleaved
	figures     []figure
	run         func(ctx context.Context, b *bed, p plan) (figures, error)
}

func (w workload) title() string { return w.name }

func everyone(c competitor) bool         { return withRetried(c) && !c.retries }
func withRetried(c competitor) bool      { return c.mode == userspace && !c.other() }
func withUDP(c competitor) bool          { return c.udp && everyone(c) }
func proxies(c competitor) bool          { return c.program != "" && everyone(c) }
func portaldAlone(c competitor) bool     { return c.records() && !c.kept && !c.retries && !c.other() }
func kernelModes(c competitor) bool      { return c.mode != userspace && c.flowRecords == "" }
func recordsOfFlows(c competitor) bool   { return c.flowRecords != "" }
func labelled(w, what string) string     { return w + ", " + what }
func service(port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(vip), port) }

// workloads lists all, in the order of the report.
func workloads() []workload {
	return slices.Concat(trafficWorkloads(), []workload{idleWorkload(), tailWorkload()}, controlWorkloads(),
		[]workload{memoryWorkload(10_000, 100)}, engineWorkloads(), kernelWorkloads(),
		[]workload{flowsWorkload()})
}

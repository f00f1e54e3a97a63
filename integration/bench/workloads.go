//go:build linux

package main

import (
	"context"
	"net/netip"
	"slices"
)

// figure is one number that a workload yields.
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
	few         bool // it takes long and varies little: three rounds will do, and one in a quick run
	figures     []figure
	run         func(ctx context.Context, b *bed, p plan) (figures, error)
}

func (w workload) title() string { return w.name }

func everyone(competitor) bool           { return true }
func withUDP(c competitor) bool          { return c.udp }
func proxies(c competitor) bool          { return c.program != "" }
func portaldAlone(c competitor) bool     { return c.program == "portald" }
func labelled(w, what string) string     { return w + ", " + what }
func service(port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(vip), port) }

// workloads lists all, in the order of the report.
func workloads() []workload {
	return slices.Concat(trafficWorkloads(), []workload{idleWorkload()}, controlWorkloads(),
		[]workload{memoryWorkload(10_000, 100)})
}

//go:build linux

package main

import (
	"context"
	"net/netip"
	"time"
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

// left excludes the workload from quick runs.
func (w workload) left() workload {
	w.long = true
	return w
}

func labelled(w, what string) string     { return w + ", " + what }
func service(port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(vip), port) }

// plan says what to measure: workloads, competitors, rounds and durations.
type plan struct {
	workloads   []workload
	competitors []competitor
	rounds      int
	span        time.Duration // duration of one measurement
	idleConns   int           // number of idle connections
	quick       bool
}

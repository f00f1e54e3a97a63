//go:build linux

package main

import (
	"context"
	"errors"
	"time"

	"github.com/portald/portald/integration/load"
	"github.com/portald/portald/platform"
)

// flowsGroup is the group of flowsWorkload.
const flowsGroup = "flows"

// flowsWorkload measures what records of the kernel's connections cost: short connections, whose conntrack entries end
// a second later.
func flowsWorkload() workload {
	return workload{
		name: "flows", label: "short connections in a kernel mode, with records of them", among: recordsOfFlows, long: true,
		group: flowsGroup,
		figures: []figure{
			{"rate", "new connections per second; 16 at once", 0}, {"p50", "a new connection, p50 µs", 0},
			{"p99", "a new connection, p99 µs", 0}, {"failed", "new connections, failed %", 2},
			{"records", "records per connection, %", 1}, {"lost", "of these lost, %", 1},
			{"cpu", "portald, CPU µs a connection", 2},
		},
		run: func(ctx context.Context, b *bed, p plan) (figures, error) {
			before, err := b.flowCounts(ctx)
			if err != nil {
				return nil, err
			}
			f, err := b.churn(ctx, load.Churn{Proto: "tcp", Conns: 16}, service(echoPort).String(), p.span)
			if err != nil {
				return nil, err
			}
			after, err := b.flowCounts(ctx)
			for i := range after {
				after[i] -= before[i]
			}
			all := f["rate"] * p.span.Seconds()
			f["records"], f["lost"], f["cpu"] = 100*after[0]/all, 100*after[1]/all, after[2]/all
			return f, err
		},
	}
}

// flowCounts are the records of the kernel's connections, those that were lost, and the CPU time of portald in µs, once
// all flows that have expired are told.
func (b *bed) flowCounts(ctx context.Context) (counts [3]float64, err error) {
	err = b.net.Node.Do(func() error { // a list removes what has expired
		return platform.ListFlows(ctx, false, func([]byte) bool { return true })
	})
	if err != nil {
		return counts, err
	}
	time.Sleep(time.Second) // portald looks many times
	for i, name := range []string{
		"portald_kernel_connections_total", "portald_kernel_records_lost_total", "process_cpu_seconds_total",
	} {
		n, failed := b.metric(ctx, name)
		counts[i], err = n, errors.Join(err, failed)
	}
	counts[2] *= 1e6
	return counts, err
}

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/portald/portald/integration/load"
)

// kernelWorkload measures the first sync of n Services and changes of one of them, by portald's metric and by a client.
// For comparison it measures the host's own command with the same rules, and with one more rule. A change replaces all
// endpoints. Each measurement uses a new node, because in kernel modes rules outlive the daemon.
func kernelWorkload(n, rounds int) workload {
	return workload{
		name: fmt.Sprint("kernel", n), label: fmt.Sprintf("kernel modes, %d Services", n), among: kernelModes,
		services: n, most: rounds, group: "kernel",
		figures: []figure{
			{"first", "first sync, ms", 0}, {"restore", "one restore of the same rules, ms", 0},
			{"times", "first sync to that restore, ratio", 2}, {"start", "from start to healthy, ms", 0},
			{"MB", "memory, MB", 0}, {"live", "memory in use on the heap, MB", 0},
			{"endpoints", "a change of endpoints, ms", 2},
			{"endpoints-seen", "a change of endpoints until seen by clients, ms", 1},
			{"service", "a change of a Service, ms", 2},
			{"service-seen", "a change of a Service until seen by clients, ms", 1},
			{"one", "one more rule by the host's command, ms", 1},
		},
		run: func(ctx context.Context, b *bed, p plan) (f figures, err error) {
			own, err := newBed(ctx, b.with(n), b.lab)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, own.close()) }()
			return own.scale(ctx)
		},
	}
}

// scale measures the bed's portald, which must not be running.
func (b *bed) scale(ctx context.Context) (figures, error) {
	f := figures{}
	if err := b.timeStart(ctx, f); err != nil {
		return nil, err
	}
	if err := b.memory(ctx, f); err != nil {
		return nil, err
	}
	if err := b.timeChanges(ctx, f); err != nil {
		return nil, err
	}
	b.down() // the rules stay
	var err error
	if f["one"], err = b.besides(ctx); err != nil {
		return nil, fmt.Errorf("restore a rule beside: %w", err)
	}
	took, err := b.restore(ctx)
	if err != nil {
		return nil, fmt.Errorf("restore the same rules: %w", err)
	}
	f["restore"] = milliseconds(took)
	f["times"] = f["first"] / f["restore"]
	return f, nil
}

// connectWorkload opens connections to the addresses of n Services in random order.
func connectWorkload(n int) workload {
	return workload{
		name: fmt.Sprint("connect", n), label: fmt.Sprintf("new connections in kernel modes, %d Services", n),
		among:    kernelModes,
		services: n, group: "connect",
		figures: []figure{
			{"rate", "new connections per second; 16 at once", 0},
			{"p50", "a new connection, p50 µs", 0}, {"p99", "a new connection, p99 µs", 0},
			{"failed", "new connections, failed %", 2},
		},
		run: func(ctx context.Context, b *bed, p plan) (figures, error) {
			c := load.Churn{Proto: "tcp", Conns: 16}
			if n == 1 {
				return b.churn(ctx, c, service(echoPort).String(), p.span)
			}
			many, err := b.lab.bed(ctx, b.with(n))
			if err != nil {
				return nil, err
			}
			return many.churn(ctx, c, "@"+many.targets(), p.span)
		},
	}
}

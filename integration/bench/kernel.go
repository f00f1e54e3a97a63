//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/load"
)

// In kernel modes there are rules for each endpoint: each is the number of endpoints per Service, nodes the number of
// nodes.
const (
	each  = 10
	nodes = 500
)

// Numbers of Services, from which the addresses of their endpoints are derived.
const (
	measured = iota
	changing
	further // and those that follow
)

// kernelWorkloads measure the cost of the number of Services in kernel modes.
func kernelWorkloads() []workload {
	return []workload{
		kernelWorkload(1000, 3), kernelWorkload(5000, 1).left(), kernelWorkload(10_000, 2),
		kernelWorkload(30_000, 1).left(),
		connectWorkload(1), connectWorkload(1000).left(), connectWorkload(10_000),
	}
}

// left excludes the workload from quick runs.
func (w workload) left() workload {
	w.long = true
	return w
}

// kernelWorkload measures the first sync of n Services and changes of one of them, by portald's metric and by a client.
// For comparison it measures the host's own command with the same rules, and with one more rule. A change replaces all
// endpoints. Each measurement uses a new node, because in kernel modes rules outlive the daemon.
func kernelWorkload(n, rounds int) workload {
	return workload{
		name: fmt.Sprint("kernel", n), label: fmt.Sprintf("kernel modes, %d Services", n), among: kernelModes,
		services: n, most: rounds, group: "kernel",
		figures: []figure{
			{"first", "first sync, ms", 0}, {"restore", "the same rules by one restore, ms", 0},
			{"times", "first sync, times that restore", 2}, {"start", "from start to healthy, ms", 0},
			{"MB", "memory, MB", 0}, {"live", "memory in use on the heap, MB", 0},
			{"endpoints", "a change of endpoints, ms", 2},
			{"endpoints-seen", "a change of endpoints until seen by clients, ms", 1},
			{"service", "a change of a Service, ms", 2},
			{"service-seen", "a change of a Service until seen by clients, ms", 1},
			{"one", "one rule more by the host's command, ms", 1},
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

// endpoints lists the endpoints of a Service at one of the pods. In kernel modes they are spread over the nodes of a
// large cluster, because a local endpoint needs more rules than a remote one.
func (b *bed) endpoints(service, pod int) []endpoint {
	if b.mode == userspace {
		return []endpoint{{b.net.Pod(pod).IPv4, thisNode}}
	}
	first := crowd(pod).Addr().As4()
	var all []endpoint
	for n := service * each; n < (service+1)*each; n++ {
		on := fmt.Sprint("node-", n%nodes)
		if n%nodes == 0 {
			on = thisNode
		}
		at := netip.AddrFrom4([4]byte{first[0], first[1] | byte(n>>16), byte(n >> 8), byte(n)})
		all = append(all, endpoint{at, on})
	}
	return all
}

// crowd is a range whose addresses are all local to one pod, which stands for many pods.
func crowd(pod int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128 | byte(pod)<<5, 0, 0}), 11)
}

// crowds adds these ranges to the pods.
func (b *bed) crowds() error {
	for i := range pods {
		pod := b.net.Pod(i)
		there := netlink.Route{Dst: prefix(crowd(i)), Gw: pod.IPv4.AsSlice()}
		here := netlink.Route{Dst: prefix(crowd(i)), Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL,
			Scope: netlink.SCOPE_HOST}
		if err := errors.Join(route(b.net.Node, fmt.Sprint("pod", i), there), route(pod, "lo", here)); err != nil {
			return fmt.Errorf("add addresses to pod %d: %w", i, err)
		}
	}
	return nil
}

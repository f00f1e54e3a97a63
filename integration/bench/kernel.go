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

// In kernel modes there are rules for each endpoint: each is how many a Service has, and nodes how many there are of.
const (
	each  = 10
	nodes = 500
)

// Numbers of Services, which their endpoints' addresses come from.
const (
	measured = iota
	changing
	further // and those that follow
)

// kernelWorkloads measure what the number of Services costs where the kernel carries them.
func kernelWorkloads() []workload {
	return []workload{
		kernelWorkload(1000, 3), kernelWorkload(5000, 1).left(), kernelWorkload(10_000, 2),
		kernelWorkload(30_000, 1).left(),
		connectWorkload(1), connectWorkload(1000).left(), connectWorkload(10_000),
	}
}

// left has a quick run leave the workload out.
func (w workload) left() workload {
	w.long = true
	return w
}

// kernelWorkload times the first sync of n Services and changes of one of them, from inside and from outside, and
// what the host's own command needs for the same rules at once and for one more. All endpoints change. Each time the
// daemon is a new one on a new node: in these modes rules outlive it.
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

// scale measures the bed's portald, which must not run yet.
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

// connectWorkload makes new connections to addresses drawn at random among n Services.
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

// endpoints are those of a Service when they are at one of the pods. In kernel modes they are spread over the nodes
// of a large cluster: one that is on the node where the rules are needs more of them than others.
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

// crowd is a range of which a pod has every address, to stand for any number of pods.
func crowd(pod int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128 | byte(pod)<<5, 0, 0}), 11)
}

// crowds gives the pods those addresses.
func (b *bed) crowds() error {
	for i := range pods {
		pod := b.net.Pod(i)
		there := netlink.Route{Dst: prefix(crowd(i)), Gw: pod.IPv4.AsSlice()}
		here := netlink.Route{Dst: prefix(crowd(i)), Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL,
			Scope: netlink.SCOPE_HOST}
		if err := errors.Join(route(b.net.Node, fmt.Sprint("pod", i), there), route(pod, "lo", here)); err != nil {
			return fmt.Errorf("give pod %d more addresses: %w", i, err)
		}
	}
	return nil
}

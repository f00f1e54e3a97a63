//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const apiAt = "127.0.0.1:8001" // on the node

// memoryWorkload tells how much memory portald has once it serves many Services with many endpoints each, which an API
// server told it of, and how much of that it needs: the rest is the collector's, and goes back in time.
func memoryWorkload(services, endpoints int) workload {
	what := fmt.Sprintf("%d Services × %d endpoints", services, endpoints)
	return workload{
		name: "memory", label: "memory at " + what, among: portaldAlone, most: 3,
		figures: []figure{{"MB", "memory at " + what + ", MB", 0},
			{"live", "the same, MB that are in use on the heap", 0},
			{"start", "the same, from start to healthy, ms", 0}},
		run: func(ctx context.Context, b *bed, p plan) (f figures, err error) {
			own, err := newBed(ctx, b.watching(inventory{services, endpoints}), b.lab)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, own.close()) }()
			return own.weigh(ctx, services)
		},
	}
}

// watching is the same portald as it follows an API server with these objects.
func (c competitor) watching(v inventory) competitor {
	return competitor{name: c.name + "-watch", label: c.label + ", watching", program: c.program, path: c.path,
		start: func(b *bed) ([]string, error) {
			listener, err := b.net.Node.Listen("tcp", apiAt)
			if err != nil {
				return nil, err
			}
			server := &http.Server{Handler: v}
			go func() { _ = server.Serve(listener) }() // until it is closed
			context.AfterFunc(b.ctx, func() { _ = server.Close() })
			return []string{b.portald(),
				"--master", "http://" + apiAt,
				"--hostname-override", "node-000.example.org",
				"--healthz-bind-address", healthAt,
				"--metrics-bind-address", metricsAt,
				"--profiling",
			}, nil
		}}
}

// weigh starts portald and returns what it has and holds when it is ready and knows of that many slices.
func (b *bed) weigh(ctx context.Context, slices int) (figures, error) {
	args, err := b.start(b)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := b.launch(args); err != nil {
		return nil, err
	}
	if err := b.healthy(ctx); err != nil {
		return nil, err
	}
	ready := time.Since(began)
	known, err := b.metric(ctx, "kubeproxy_sync_proxy_rules_endpoint_changes_total")
	if err != nil || int(known) != slices {
		return nil, fmt.Errorf("portald knows of %g slices, and there are %d: %w", known, slices, err)
	}
	f := figures{"start": milliseconds(ready)}
	return f, b.memory(ctx, f)
}

// memory is what a portald with --profiling has once it rests, and what of it is needed.
func (b *bed) memory(ctx context.Context, f figures) error {
	time.Sleep(settling)
	has, err := b.footprint()
	if err != nil {
		return err
	}
	if err := b.collect(ctx); err != nil {
		return err
	}
	live, err := b.metric(ctx, "go_memstats_heap_alloc_bytes")
	f["MB"], f["live"] = float64(has.bytes)/1e6, live/1e6
	return err
}

// collect has portald put away garbage, so that what its heap has is what it needs.
func (b *bed) collect(ctx context.Context) error {
	r, err := b.get(ctx, "http://"+metricsAt+"/debug/pprof/heap?gc=1")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("have garbage collected: %s", r.Status)
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err
}

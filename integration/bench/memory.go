//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"
)

const apiAt = "127.0.0.1:8001" // on the node

// memoryWorkload measures portald's memory with many Services and endpoints from an API server, and the live part of
// the heap: the rest is garbage or free memory that the runtime returns later.
func memoryWorkload(services, endpoints int) workload {
	what := fmt.Sprintf("%d Services × %d endpoints", services, endpoints)
	return workload{
		name: "memory", label: "memory at " + what, among: portaldAlone, most: 3,
		figures: []figure{{"MB", "memory at " + what + ", MB", 0},
			{"live", "the same, MB in use on the heap", 0},
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

// watching is the same portald, connected to an API server with these objects.
func (c competitor) watching(v inventory) competitor {
	return competitor{name: c.name + "-watch", label: c.label + ", watching", program: c.program, path: c.path,
		start: func(b *bed) ([]string, error) {
			listener, err := b.net.Node.Listen("tcp", apiAt)
			if err != nil {
				return nil, err
			}
			server := &http.Server{Handler: v}
			go func() { _ = server.Serve(listener) }() // returns when the server is closed
			context.AfterFunc(b.ctx, func() { _ = server.Close() })
			return []string{b.portald(),
				"--master", "http://" + apiAt,
				"--hostname-override", "node-000.example.org",
				"--healthz-bind-address", healthAt,
				"--metrics-bind-address", metricsAt,
				"--admin-socket", filepath.Join(b.dir, "admin.sock"),
				"--profiling",
			}, nil
		}}
}

// weigh starts portald and measures its memory once it is ready and has received all slices.
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
		return nil, fmt.Errorf("portald has received %g slices of %d: %w", known, slices, err)
	}
	f := figures{"start": milliseconds(ready)}
	return f, b.memory(ctx, f)
}

// memory returns the memory of an idle portald with --profiling, and the live part of its heap.
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

// collect makes portald run the garbage collector, so that its heap contains only live objects.
func (b *bed) collect(ctx context.Context) error {
	r, err := b.get(ctx, "http://"+metricsAt+"/debug/pprof/heap?gc=1")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("run the garbage collector: %s", r.Status)
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err
}

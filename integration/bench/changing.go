//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/portald/portald/integration/load"
)

// changingSpan is the minimum duration of the measurement: portald applies changes once a second.
const changingSpan = 4 * time.Second

// slicesChanged is portald's count of EndpointSlices that were changed.
const slicesChanged = "kubeproxy_sync_proxy_rules_endpoint_changes_total"

// changingWorkload measures new connections while so many endpoints of other Services come and go each second.
func changingWorkload(perSecond int) workload {
	label := fmt.Sprintf("new connections while %d endpoints a second come or go", perSecond)
	return workload{
		name: fmt.Sprint("crr-changing", perSecond), label: label, among: portaldAlone,
		figures: append(exchangeFigures(label), figure{"changes", "endpoints that came or went, per second", 0}),
		run: func(ctx context.Context, b *bed, p plan) (figures, error) {
			before, err := b.metric(ctx, slicesChanged)
			if err != nil {
				return nil, err
			}
			changing, stop := context.WithCancel(ctx)
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- b.keepChanging(changing, perSecond) }()
			began := time.Now()
			f, err := b.churn(ctx, load.Churn{Proto: "tcp", Conns: 16}, service(echoPort).String(),
				max(p.span, changingSpan))
			took := time.Since(began)
			stop()
			if failed := <-ended; err == nil {
				err = failed
			}
			if err != nil {
				return nil, err
			}
			after, err := b.metric(ctx, slicesChanged)
			if err != nil {
				return nil, err
			}
			f["changes"] = 2 * (after - before) / took.Seconds()
			if f["changes"] < float64(perSecond)/4 {
				return nil, fmt.Errorf("%.0f endpoints a second came or went, want %d", f["changes"], perSecond)
			}
			return f, nil
		},
	}
}

// keepChanging gives Services another endpoint each second, until ctx ends: one comes, and one goes.
func (b *bed) keepChanging(ctx context.Context, perSecond int) error {
	next := time.NewTicker(time.Second)
	defer next.Stop()
	for pod := 0; ; pod = 1 - pod {
		var text strings.Builder
		for i, a := range drawn(perSecond / 2) {
			object(&text, fmt.Sprint("changing-", i), a, []port{{"who", "TCP", changingPort}}, b.endpoints(changing, pod))
		}
		path, err := b.file("changing-each.json", text.String())
		if err == nil {
			err = os.Rename(path, b.manifest("changing-each.json"))
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
	}
}

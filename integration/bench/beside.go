//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/portald/portald/integration/load"
)

// underWay is the time in which uploads fill all buffers before the measurement begins.
const underWay = 300 * time.Millisecond

// besideSpan is the minimum duration of the measurement: if a proxy prefers bulk traffic, one exchange can take long.
const besideSpan = 500 * time.Millisecond

// besideConns is the number of connections with small exchanges during the uploads.
const besideConns = 4

// besideBulk lists the competitors without nginx, which may answer no exchange during 128 uploads.
func besideBulk(c competitor) bool { return everyone(c) && c.program != "nginx" }

// besideWorkload measures the small exchanges of one service port while another carries uploads.
func besideWorkload(uploads int) workload {
	label := fmt.Sprintf("request/response during %d uploads", uploads)
	return workload{
		name: fmt.Sprint("beside", uploads), label: label, among: besideBulk,
		figures: append(exchangeFigures(label), figure{"gbps", labelled(label, "uploads Gb/s"), 1}),
		run: func(ctx context.Context, b *bed, p plan) (figures, error) {
			span := max(p.span, besideSpan)
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			var carried load.BulkResult
			done := make(chan error, 1)
			go func() {
				done <- b.load(ctx, &carried, "bulk", "-to", service(bulkPort).String(),
					"-streams", strconv.Itoa(uploads), "-apart", "-for", (underWay + span).String())
			}()
			select {
			case err := <-done:
				return nil, errors.Join(errors.New("uploads ended early"), err)
			case <-time.After(underWay):
			}
			f, _, err := b.exchanges(ctx, "rr", "-to", service(echoPort).String(),
				"-conns", strconv.Itoa(besideConns), "-for", span.String())
			if err != nil {
				cancel()
			}
			if err := errors.Join(err, <-done); err != nil {
				return nil, err
			}
			f["gbps"] = float64(carried.Bytes) * 8 / 1e9 / carried.Elapsed.Seconds()
			return f, nil
		},
	}
}

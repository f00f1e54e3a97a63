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

// underWay is how long uploads have to fill all buffers before anything is measured beside them.
const underWay = 300 * time.Millisecond

// besideSpan is how long they are measured at the least: where bulk comes first, an exchange may take that long.
const besideSpan = 500 * time.Millisecond

// besideConns is how many connections exchange beside the uploads: few, as of clients that wait for each answer.
const besideConns = 4

// besideBulk leaves out who may answer no exchange for as long as is measured: nginx beside 128 uploads, and portald's
// goroutine engine, where one took 280 ms beside 32.
func besideBulk(c competitor) bool { return everyone(c) && c.program != "nginx" && c.engine == "" }

// besideWorkload measures the small exchanges of one service port while another carries uploads.
func besideWorkload(uploads int) workload {
	label := fmt.Sprintf("request/response beside %d uploads", uploads)
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

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/connlog"
)

// slowRecord is how long the reader of tailWorkload takes for a record: it gets 1 in 50.
const slowRecord = 10 * time.Millisecond

// tailWorkload measures new connections while somebody follows the records and is too slow for them.
func tailWorkload() workload {
	const label = "new connections followed by a slow reader"
	return workload{
		name: "tail", label: label, among: portaldAlone,
		figures: []figure{{"rate", labelled(label, "per second"), 0}, {"cpu", labelled(label, "CPU µs each"), 1},
			{"ratio", "with a slow reader to without, ratio", 2}},
		run: func(ctx context.Context, b *bed, p plan) (figures, error) {
			before, err := b.followed(ctx, p.span, nil)
			if err != nil {
				return nil, err
			}
			reader, err := b.followSlowly(ctx)
			if err != nil {
				return nil, err
			}
			f, err := b.followed(ctx, p.span, reader)
			if err != nil {
				return nil, err
			}
			after, err := b.followed(ctx, p.span, nil)
			if err != nil {
				return nil, err
			}
			f["ratio"] = 2 * f["rate"] / (before["rate"] + after["rate"])
			return f, nil
		},
	}
}

// followed makes connections, and expects that the reader of their records, if there is one, is told of all.
func (b *bed) followed(ctx context.Context, span time.Duration, reader *slowReader) (figures, error) {
	f, r, err := b.exchanges(ctx, "churn", "-proto", "tcp", "-to", service(echoPort).String(), "-conns", "16",
		"-for", span.String())
	if reader != nil {
		err = errors.Join(err, reader.accountFor(r.Exchanges))
	}
	return f, err
}

// slowReader follows the records of a portald.
type slowReader struct {
	told  atomic.Uint64 // records, and how many were missed
	hurry chan struct{} // closed: it reads as fast as it can
	ended chan error
	stop  context.CancelFunc
}

// followSlowly returns once the reader has a stream.
func (b *bed) followSlowly(ctx context.Context) (*slowReader, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &slowReader{hurry: make(chan struct{}), ended: make(chan error, 1), stop: cancel}
	client := adminsocket.NewClient(b.adminSocket())
	go func() {
		defer client.Close()
		r.ended <- client.Records(ctx, adminsocket.RecordQuery{Last: 1, Follow: true}, r.record, r.gap)
	}()
	if err := r.await(1); err != nil { // the last record before those that are measured
		return nil, err
	}
	r.told.Store(0)
	return r, nil
}

func (r *slowReader) record(*connlog.Line) error {
	r.told.Add(1)
	select {
	case <-r.hurry:
	case <-time.After(slowRecord):
	}
	return nil
}

func (r *slowReader) gap(g adminsocket.Gap) error {
	r.told.Add(g.Missed)
	return nil
}

// accountFor ends the reader once it was told of so many connections, by a record or as one that it missed.
func (r *slowReader) accountFor(conns int64) error {
	close(r.hurry)
	defer r.stop()
	return r.await(uint64(conns))
}

func (r *slowReader) await(conns uint64) error {
	for end := time.Now().Add(readyWithin); r.told.Load() < conns; time.Sleep(time.Millisecond) {
		select {
		case err := <-r.ended:
			return fmt.Errorf("follow the records: %w", err)
		default:
		}
		if time.Now().After(end) {
			return fmt.Errorf("a reader of records was told of %d connections, of %d", r.told.Load(), conns)
		}
	}
	return nil
}

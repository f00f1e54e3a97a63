package connlog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Queue holds the reports that are not written yet. It wakes its reader rarely, since a wake-up costs more than a
// report. Any goroutine may put reports; one takes them.
type Queue struct {
	limit   int
	wake    chan struct{} // it is no longer empty
	half    chan struct{} // it is half full
	dropped atomic.Uint64

	mu      sync.Mutex
	reports []Report
	spare   []Report // what Take last returned
	closed  bool
}

// NewQueue returns a queue for so many reports.
func NewQueue(limit int) *Queue {
	return &Queue{limit: limit, wake: make(chan struct{}, 1), half: make(chan struct{}, 1)}
}

// Put implements Sink: it adds r, or drops and counts it when the queue is full or closed.
func (q *Queue) Put(r Report) {
	q.mu.Lock()
	waiting := len(q.reports)
	full := q.closed || waiting >= q.limit
	if !full {
		q.reports = append(q.reports, r)
	}
	q.mu.Unlock()
	switch {
	case full:
		q.dropped.Add(1)
	case waiting == 0:
		signal(q.wake)
	case waiting == q.limit/2:
		signal(q.half)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Ready has a value when the queue is no longer empty.
func (q *Queue) Ready() <-chan struct{} { return q.wake }

// Gather waits for more reports, until that time is over, the queue is half full, or ctx ends.
func (q *Queue) Gather(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-q.half:
	case <-ctx.Done():
	}
}

// Take empties the queue. The caller owns the slice until the next call, and clears each report in it when done, since
// the slice is used again.
func (q *Queue) Take() []Report {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.reports
	q.reports, q.spare = q.spare[:0], batch
	return batch
}

// Close makes Put drop all further reports.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// Drop counts reports that were taken, and lost.
func (q *Queue) Drop(n int) { q.dropped.Add(uint64(n)) }

// Dropped returns the number of reports that were dropped.
func (q *Queue) Dropped() uint64 { return q.dropped.Load() }

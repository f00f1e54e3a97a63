package connlog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Queue holds what is not written yet, such as reports. It wakes its reader rarely, since a wake-up costs more than a
// report. Any goroutine may put elements; one takes them.
type Queue[T any] struct {
	limit   int
	wake    chan struct{} // it is no longer empty
	half    chan struct{} // it is half full
	dropped atomic.Uint64

	mu      sync.Mutex
	waiting []T
	spare   []T // what Take last returned
	closed  bool
}

// NewQueue returns a queue for so many elements.
func NewQueue[T any](limit int) *Queue[T] {
	return &Queue[T]{limit: limit, wake: make(chan struct{}, 1), half: make(chan struct{}, 1)}
}

// Put adds an element, or drops and counts it when the queue is full or closed. It implements Sink.
func (q *Queue[T]) Put(one T) {
	q.mu.Lock()
	waiting := len(q.waiting)
	full := q.closed || waiting >= q.limit
	if !full {
		q.waiting = append(q.waiting, one)
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
func (q *Queue[T]) Ready() <-chan struct{} { return q.wake }

// Gather waits for more, until that time is over, the queue is half full, or ctx ends.
func (q *Queue[T]) Gather(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-q.half:
	case <-ctx.Done():
	}
}

// Take empties the queue. The caller owns the slice until the next call, and clears each element in it when done, since
// the slice is used again.
func (q *Queue[T]) Take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.waiting
	q.waiting, q.spare = q.spare[:0], batch
	return batch
}

// Close makes Put drop all further elements.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// Drop counts elements that were taken, and lost.
func (q *Queue[T]) Drop(n int) { q.dropped.Add(uint64(n)) }

// Dropped returns the number of elements that were dropped.
func (q *Queue[T]) Dropped() uint64 { return q.dropped.Load() }

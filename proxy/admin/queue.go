package admin

import (
	"sync"
	"sync/atomic"

	"github.com/portald/portald/proxy/splice"
)

// queue holds the records that are not written yet. It wakes its reader rarely, since a wake-up costs more than a
// record.
type queue struct {
	limit   int
	wake    chan struct{} // it is no longer empty
	half    chan struct{} // it is half full
	dropped atomic.Uint64

	mu      sync.Mutex
	records []*splice.Record
	spare   []*splice.Record // what take last returned
	closed  bool
}

func newQueue(limit int) *queue {
	return &queue{limit: limit, wake: make(chan struct{}, 1), half: make(chan struct{}, 1)}
}

// put adds r, or drops and counts it when the queue is full or closed.
func (q *queue) put(r *splice.Record) {
	q.mu.Lock()
	waiting := len(q.records)
	full := q.closed || waiting >= q.limit
	if !full {
		q.records = append(q.records, r)
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

// take empties the queue. The caller owns the slice until the next call, and sets each record in it to nil when done,
// since the slice is used again.
func (q *queue) take() []*splice.Record {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.records
	q.records, q.spare = q.spare[:0], batch
	return batch
}

// close makes put drop all further records.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

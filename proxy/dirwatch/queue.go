package dirwatch

import (
	"sync"

	"github.com/fsnotify/fsnotify"
)

// maxQueue is how many events may wait, as in Linux' own queue for them (fs.inotify.max_queued_events).
const maxQueue = 1 << 14

// queue takes events from fsnotify while the user of a Watcher is busy. On Windows fsnotify adds no directory while it
// waits for somebody to take an event, and a user who adds one takes none.
type queue struct {
	events chan fsnotify.Event
	lost   chan error
	done   chan struct{}
	ended  sync.WaitGroup
}

func startQueue(events <-chan fsnotify.Event, errors <-chan error) *queue {
	q := &queue{events: make(chan fsnotify.Event), lost: make(chan error), done: make(chan struct{})}
	q.ended.Go(func() { q.run(events, errors) })
	return q
}

func (q *queue) close() {
	close(q.done)
	q.ended.Wait()
}

func (q *queue) run(events <-chan fsnotify.Event, errors <-chan error) {
	var waiting []fsnotify.Event
	var loss error
	for {
		var toEvents chan<- fsnotify.Event
		var first fsnotify.Event
		if len(waiting) > 0 {
			toEvents, first = q.events, waiting[0]
		}
		var toLost chan<- error
		if loss != nil {
			toLost = q.lost
		}
		select {
		case <-q.done:
			return
		case e := <-events:
			if len(waiting) < maxQueue {
				waiting = append(waiting, e)
			} else {
				loss = fsnotify.ErrEventOverflow
			}
		case loss = <-errors:
		case toEvents <- first:
			waiting = waiting[1:]
		case toLost <- loss:
			loss = nil
		}
	}
}

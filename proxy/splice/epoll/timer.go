package epoll

import (
	"container/heap"
	"time"
)

// timer is one deadline of its owner. A deadline that moves later need not touch the heap: when the timer fires the
// owner looks at its own state and sets it again.
type timer struct {
	at    time.Duration // on the core's clock
	index int           // in the heap, from 1; 0 = not set
	owner timed
}

// timed is called when its timer fired, which is unset by then.
type timed interface{ expired(now time.Duration) }

// timers is a heap of the timers of one loop.
type timers []*timer

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

// Push and Pop are for container/heap alone.
func (h *timers) Push(x any) {
	t := x.(*timer)
	*h = append(*h, t)
	t.index = len(*h)
}

func (h *timers) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = 0
	return t
}

func (h *timers) set(t *timer, at time.Duration) {
	t.at = at
	if t.index == 0 {
		heap.Push(h, t)
	} else {
		heap.Fix(h, t.index-1)
	}
}

func (h *timers) stop(t *timer) {
	if t.index != 0 {
		heap.Remove(h, t.index-1)
	}
}

// due takes the next timer that is due, nil when there is none.
func (h *timers) due(now time.Duration) *timer {
	if len(*h) == 0 || (*h)[0].at > now {
		return nil
	}
	return heap.Pop(h).(*timer)
}

package splice

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of LoopLatency: 31.25 µs, and each twice the one before. 1, 2 and 4 ms are among them, and 1.024 s is
// the last.
const (
	firstBound = time.Millisecond / 32
	bounds     = 16
)

// LoopLatencyBounds are the upper bounds of the counts of LoopLatency.
func LoopLatencyBounds() (all [bounds]time.Duration) {
	for i := range all {
		all[i] = firstBound << i
	}
	return all
}

// LoopLatency counts iterations of event loops by how long they took, from when events had come until all of them were
// served. Connections of a loop wait as long for each other.
type LoopLatency struct {
	Counts [bounds + 1]uint64 // up to each of LoopLatencyBounds and not to the one before; the last took longer
	Sum    time.Duration
}

// LoopTimes counts the iterations of one event loop, which alone writes it.
type LoopTimes struct {
	counts [bounds + 1]atomic.Uint64
	sum    atomic.Int64
}

// loopTimes has the LoopTimes of all event loops. Safe for concurrent use.
type loopTimes struct {
	mu  sync.Mutex
	all []*LoopTimes // guarded by mu
}

// NewLoopTimes returns where one more event loop counts its iterations.
func (c *Core) NewLoopTimes() *LoopTimes {
	t := &LoopTimes{}
	c.loops.mu.Lock()
	defer c.loops.mu.Unlock()
	c.loops.all = append(c.loops.all, t)
	return t
}

// Add counts an iteration.
func (t *LoopTimes) Add(took time.Duration) {
	count := &t.counts[min(bits.Len64(uint64(max(took, 1)-1)/uint64(firstBound)), bounds)]
	count.Store(count.Load() + 1)
	t.sum.Store(t.sum.Load() + int64(took))
}

// sum adds up the iterations of all loops.
func (l *loopTimes) sum() (all LoopLatency) {
	l.mu.Lock()
	loops := slices.Clone(l.all)
	l.mu.Unlock()
	for _, t := range loops {
		for i := range all.Counts {
			all.Counts[i] += t.counts[i].Load()
		}
		all.Sum += time.Duration(t.sum.Load())
	}
	return all
}

package splice

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of Rounds: 31.25 µs, and each twice the one before. 1, 2 and 4 ms are among them; the last is 1.024 s.
const (
	firstBound = time.Millisecond / 32
	bounds     = 16
)

// RoundBounds are the upper bounds of the counts of Rounds.
func RoundBounds() (all [bounds]time.Duration) {
	for i := range all {
		all[i] = firstBound << i
	}
	return all
}

// Rounds are how long rounds of event loops took: from when events had come until all of them were served. Connections
// of a loop wait as long for each other.
type Rounds struct {
	Counts [bounds + 1]uint64 // up to each of RoundBounds and not to the one before; the last took longer
	Sum    time.Duration
}

// LoopTimes counts the rounds of one event loop. That alone writes it.
type LoopTimes struct {
	counts [bounds + 1]atomic.Uint64
	sum    atomic.Int64
}

// loopTimes are those of all event loops. Safe for concurrent use.
type loopTimes struct {
	mu  sync.Mutex
	all []*LoopTimes // guarded by mu
}

// NewLoopTimes returns where one more event loop counts its rounds.
func (c *Core) NewLoopTimes() *LoopTimes {
	t := &LoopTimes{}
	c.loops.mu.Lock()
	defer c.loops.mu.Unlock()
	c.loops.all = append(c.loops.all, t)
	return t
}

// Add counts a round.
func (t *LoopTimes) Add(took time.Duration) {
	count := &t.counts[min(bits.Len64(uint64(max(took, 1)-1)/uint64(firstBound)), bounds)]
	count.Store(count.Load() + 1)
	t.sum.Store(t.sum.Load() + int64(took))
}

// sum has the rounds of all loops together.
func (l *loopTimes) sum() (all Rounds) {
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

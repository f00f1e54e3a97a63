package balance

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets of times grow by half a power of two, from 16 µs to a minute: a quantile is right within a half, mostly
// within a tenth, and times take 184 bytes.
const (
	minBits = 14 // 2^14 ns: 16 µs, less than a dial on the same host takes
	maxBits = 36 // 2^36 ns: 69 s, more than a dial may take
	buckets = 2*(maxBits-minBits) + 1

	// From maxTimes on all counts are halved, so that quantiles are of the last times and not of last week's.
	maxTimes = 1024
)

// times are counts of how long something took. Safe for concurrent use, without a lock: of two times at the moment of
// halving one may be lost.
type times struct {
	n      atomic.Uint32
	counts [buckets]atomic.Uint32
}

func (t *times) add(d time.Duration) {
	t.counts[bucketOf(d)].Add(1)
	if t.n.Add(1) == maxTimes {
		t.halve()
	}
}

func (t *times) halve() {
	var n uint32
	for i := range t.counts {
		c := t.counts[i].Load() / 2
		t.counts[i].Store(c)
		n += c
	}
	t.n.Store(n)
}

// bucketOf is the index of the bucket of a time: twice the position of its highest bit, and the next bit.
func bucketOf(d time.Duration) int {
	n := uint64(max(d, 1<<minBits))
	high := bits.Len64(n) - 1
	return min(2*(high-minBits)+int(n>>(high-1)&1), buckets-1)
}

// lowest is the shortest time of a bucket.
func lowest(bucket int) time.Duration {
	return time.Duration(2+bucket%2) << (minBits - 1 + bucket/2)
}

// TimeBounds are the upper bounds of what the counts of Statistics are of. The first has no lower one, and the last
// count has no upper one.
func TimeBounds() (bounds []time.Duration) {
	for i := 1; i < buckets; i++ {
		bounds = append(bounds, lowest(i))
	}
	return bounds
}

// snapshot returns the counts now; nil: there is none yet.
func (t *times) snapshot() []uint64 {
	counts, n := make([]uint64, buckets), uint64(0)
	for i := range t.counts {
		counts[i] = uint64(t.counts[i].Load())
		n += counts[i]
	}
	if n == 0 {
		return nil
	}
	return counts
}

// quantiles returns the times that parts of all, in ascending order and each from 0 to 1, are not above; nil: there is
// none yet.
func (t *times) quantiles(parts ...float64) []time.Duration {
	var counts [buckets]uint32
	var n uint32
	for i := range t.counts {
		counts[i] = t.counts[i].Load()
		n += counts[i]
	}
	if n == 0 {
		return nil
	}
	out := make([]time.Duration, 0, len(parts))
	below, bucket := uint32(0), 0
	for _, part := range parts {
		rank := max(part*float64(n), 1)
		for bucket < buckets-1 && float64(below+counts[bucket]) < rank {
			below += counts[bucket]
			bucket++
		}
		from, to := lowest(bucket), lowest(bucket+1)
		inside := (rank - float64(below) - 0.5) / float64(max(counts[bucket], 1))
		out = append(out, from+time.Duration(inside*float64(to-from)))
	}
	return out
}

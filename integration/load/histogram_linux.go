package load

import (
	"math/bits"
	"time"
)

// The histogram has 32 steps to each doubling: a quantile is right to 3 %.
const (
	stepBits = 5
	steps    = 1 << stepBits
)

// histogram counts durations.
type histogram struct {
	counts [64 * steps]uint64
	total  uint64
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(uint64(max(d, 0)))]++
	h.total++
}

// bucket is exact below 32 ns, and above keeps the five bits after the leading one.
func bucket(ns uint64) int {
	if ns < steps {
		return int(ns)
	}
	shift := bits.Len64(ns) - 1 - stepBits
	return (shift+1)*steps + int(ns>>shift)&(steps-1)
}

// floor is the least duration of a bucket.
func floor(bucket int) time.Duration {
	if bucket < steps {
		return time.Duration(bucket)
	}
	shift := bucket/steps - 1
	return time.Duration(uint64(steps+bucket%steps) << shift)
}

// quantile returns the duration that a share q of all did not exceed; 0 of none.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.total))
	for b, n := range h.counts {
		if n > rank {
			return floor(b)
		}
		rank -= n
	}
	return 0
}

package balance

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// Each time is in the bucket that begins at or below it, and ends above.
func TestBuckets(t *testing.T) {
	for range 100_000 {
		d := time.Duration(math.Exp(rand.Float64() * math.Log(1e13)))
		i := bucketOf(d)
		if i < 0 || i >= buckets || d >= 1<<minBits && lowest(i) > d || i < buckets-1 && lowest(i+1) <= d {
			t.Fatalf("%v is in bucket %d, from %v to %v", d, i, lowest(i), lowest(i+1))
		}
	}
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, math.MaxInt64} {
		if i := bucketOf(d); i < 0 || i >= buckets {
			t.Errorf("%d: bucket %d", d, i)
		}
	}
}

// Quantiles are right within the width of a bucket.
func TestQuantiles(t *testing.T) {
	var all times
	if q := all.quantiles(0.5); q != nil {
		t.Errorf("of nothing: %v", q)
	}
	var exact []time.Duration
	for range maxTimes - 1 {
		d := 100*time.Microsecond + time.Duration(rand.ExpFloat64()*float64(20*time.Millisecond))
		exact = append(exact, d)
		all.add(d)
	}
	slices.Sort(exact)
	parts := []float64{0, 0.1, 0.5, 0.9, 0.99, 1}
	for i, got := range all.quantiles(parts...) {
		want := exact[min(int(parts[i]*float64(len(exact))), len(exact)-1)]
		if ratio := float64(got) / float64(want); ratio < 1/1.5 || ratio > 1.5 {
			t.Errorf("%v of all: %v, want %v", parts[i], got, want)
		}
	}
}

func TestCounts(t *testing.T) {
	var all times
	if got := all.snapshot(); got != nil {
		t.Errorf("of nothing: %v", got)
	}
	for _, d := range []time.Duration{0, time.Millisecond, time.Millisecond, time.Hour} {
		all.add(d)
	}
	bounds, counts := TimeBounds(), all.snapshot()
	if len(counts) != len(bounds)+1 || counts[0] != 1 || counts[len(bounds)] != 1 {
		t.Fatalf("%d bounds, counts %v", len(bounds), counts)
	}
	i, _ := slices.BinarySearch(bounds, time.Millisecond+1)
	if counts[i] != 2 {
		t.Errorf("%d up to %v, want 2", counts[i], bounds[i])
	}
}

// Times of long ago no longer count.
func TestTimesAreForgotten(t *testing.T) {
	var all times
	for range 100_000 {
		all.add(time.Millisecond)
	}
	for range 6 * maxTimes {
		all.add(time.Second)
	}
	if q := all.quantiles(0.05)[0]; q < time.Second/2 {
		t.Errorf("one in twenty is %v", q)
	}
}

// Several goroutines may add and ask at once.
func TestTimesAtOnce(t *testing.T) {
	var all times
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20_000 {
				all.add(time.Millisecond)
				if rand.N(100) == 0 {
					all.quantiles(0.5, 0.99)
				}
			}
		})
	}
	wg.Wait()
	for _, q := range all.quantiles(0.01, 0.99) {
		if q < time.Millisecond/2 || q > 2*time.Millisecond {
			t.Errorf("a quantile is %v", q)
		}
	}
}

func BenchmarkAddTime(b *testing.B) {
	var all times
	for i := range b.N {
		all.add(time.Duration(i&0xfffff) << 6)
	}
}

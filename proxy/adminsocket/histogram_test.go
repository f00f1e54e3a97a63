package adminsocket

import "testing"

func TestQuantileOfHistogram(t *testing.T) {
	bounds := []float64{1, 2, 4}
	for _, test := range []struct {
		counts []uint64
		part   float64
		want   float64 // -1: none
	}{
		{[]uint64{0, 0, 0, 0}, 0.5, -1},
		{[]uint64{0, 1, 0, 0}, 0.5, 1.5},
		{[]uint64{0, 1, 0, 0}, 0.99, 1.5},
		{[]uint64{90, 0, 10, 0}, 0.5, 0.55},
		{[]uint64{90, 0, 10, 0}, 0.99, 3.7},
		{[]uint64{1, 0, 0, 9}, 0.99, 4},
		{[]uint64{1}, 0.5, -1}, // it is of no histogram
	} {
		got := (&Histogram{BoundsMS: bounds, Counts: test.counts}).Quantile(test.part)
		if (got == nil) != (test.want < 0) || got != nil && (*got < test.want-0.001 || *got > test.want+0.001) {
			t.Errorf("%v of %v: %v, want %v", test.part, test.counts, got, test.want)
		}
	}
}

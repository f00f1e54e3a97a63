package metrics

import (
	"fmt"
	"testing"
	"time"
)

// histogramOf returns the observations of one family.
func histogramOf(t *testing.T, m *Metrics, name, family string) (n uint64, sum float64) {
	t.Helper()
	found, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		for _, child := range f.GetMetric() {
			if f.GetName() == name && child.GetLabel()[0].GetValue() == family {
				n, sum = child.GetHistogram().GetSampleCount(), child.GetHistogram().GetSampleSum()
			}
		}
	}
	return n, sum
}

func TestProgrammed(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4", "IPv6")
	end := m.began.Add(time.Minute)
	m.Programmed([]time.Time{
		end.Add(-400 * time.Millisecond),
		end.Add(-61 * time.Second), // before this process
		end.Add(time.Hour),         // by another clock
	}, end)
	m.Programmed(nil, end)
	for _, family := range []string{"IPv4", "IPv6"} {
		n, sum := histogramOf(t, m, "kubeproxy_network_programming_duration_seconds", family)
		if n != 2 || sum != 0.4 {
			t.Errorf("%s: %d samples, in all %v s, want two of 0.4 s and none", family, n, sum)
		}
	}
}

func TestProgrammingBuckets(t *testing.T) {
	want := []float64{0.25, 0.5}
	for b := 1.0; b < 60; b++ {
		want = append(want, b)
	}
	for b := 60.0; b < 120; b += 5 {
		want = append(want, b)
	}
	for b := 120.0; b <= 300; b += 30 {
		want = append(want, b)
	}
	if got := programmingBuckets(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

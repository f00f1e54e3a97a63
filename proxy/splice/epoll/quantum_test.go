package epoll

import (
	"slices"
	"testing"
)

func TestQuantumQueue(t *testing.T) {
	var q quantumQueue[int]
	lap := func() (all []int) {
		q.begin()
		for x, ok := q.take(); ok; x, ok = q.take() {
			all = append(all, x)
		}
		return all
	}
	for i := range 3 {
		q.add(i)
	}
	q.begin()
	if x, ok := q.take(); x != 0 || !ok {
		t.Fatalf("first turn: %d, %v", x, ok)
	}
	q.add(0) // again, and after those who wait already
	q.begin()
	if q.over() || q.empty() {
		t.Error("a lap is over before all had their turn")
	}
	if got := lap(); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("rest of the lap: %v", got)
	}
	if !q.over() || q.empty() {
		t.Error("the lap is over, and one waits for the next")
	}
	if got := lap(); !slices.Equal(got, []int{0}) || !q.empty() {
		t.Errorf("next lap: %v", got)
	}
	allocs := testing.AllocsPerRun(100, func() {
		q.add(1)
		lap := 0
		for q.begin(); ; lap++ {
			if _, ok := q.take(); !ok {
				break
			}
		}
	})
	if allocs > 0 {
		t.Errorf("%g allocations a lap", allocs)
	}
}

package splice

import (
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
)

// An iteration counts up to the first bound that is not less.
func TestLoopLatencyBounds(t *testing.T) {
	bounds := LoopLatencyBounds()
	for i, bound := range bounds {
		for took, at := range map[time.Duration]int{bound - 1: i, bound: i, bound + 1: i + 1} {
			c := &Core{}
			c.NewLoopTimes().Add(took)
			r := c.loops.sum()
			if r.Counts[at] != 1 || r.Sum != took {
				t.Errorf("%v is not counted up to bound %d: %+v", took, at, r)
			}
		}
	}
	c := &Core{}
	c.NewLoopTimes().Add(0)
	c.NewLoopTimes().Add(time.Hour)
	if r := c.loops.sum(); r.Counts[0] != 1 || r.Counts[len(bounds)] != 1 || r.Sum != time.Hour {
		t.Errorf("of two loops: %+v", r)
	}
}

func BenchmarkLoopTimes(b *testing.B) {
	times := (&Core{}).NewLoopTimes()
	for i := range b.N {
		times.Add(time.Duration(i % 100_000))
	}
}

// Ports that are spared do not count.
func TestSourcePortLimit(t *testing.T) {
	spare, err := inet.ParsePortRanges("1-2,900-1001,1500,1999-3000")
	if err != nil {
		t.Fatal(err)
	}
	p := SourcePorts{Range: inet.PortRange{First: 1000, Last: 1999}, Reserved: spare}
	if n := p.Count(); n != 996 {
		t.Errorf("%d ports, want 996", n)
	}
	if n := (SourcePorts{Reserved: spare}).Count(); n != 0 {
		t.Errorf("%d ports where the kernel chooses, want 0", n)
	}
}

package translate

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// Owners are those that were added more often than removed, few or many.
func TestOwners(t *testing.T) {
	o, want := owners{}, map[service.Name]int{}
	f := service.Frontend{Addr: netip.MustParseAddrPort("0.0.0.0:80"), Protocol: inet.TCP}
	random := rand.New(rand.NewPCG(1, 2))
	for step := range 5000 {
		name := service.Name{Namespace: "shop", Name: fmt.Sprint("s", random.IntN(40))}
		if growing := step/500%2 == 0; want[name] > 0 && random.IntN(3) > 0 != growing {
			o.remove(f, name)
			want[name]--
		} else {
			o.add(f, name)
			want[name]++
		}
		got := map[service.Name]bool{}
		for n := range o.of(f) {
			got[n] = true
		}
		for n, count := range want {
			if got[n] != (count > 0) {
				t.Fatalf("step %d: %s is counted %d times, owner: %v", step, n, count, got[n])
			}
		}
	}
	for name, count := range want {
		for range count {
			o.remove(f, name)
		}
	}
	if _, found := o.first(f); found || len(o) != 0 {
		t.Errorf("all were removed, and there is %v", o)
	}
}

// BenchmarkOwners costs the same whatever number of Services have endpoints at one port.
func BenchmarkOwners(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 30_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			o := owners{}
			f := service.Frontend{Addr: netip.MustParseAddrPort("0.0.0.0:80"), Protocol: inet.TCP}
			all := make([]service.Name, n)
			for i := range all {
				all[i] = service.Name{Namespace: "shop", Name: fmt.Sprint("s", i)}
				o.add(f, all[i])
			}
			i := 0
			for b.Loop() {
				i++
				o.remove(f, all[i%n])
				o.add(f, all[i%n])
			}
		})
	}
}

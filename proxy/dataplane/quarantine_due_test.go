package dataplane

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/portal/service"
)

func changeOf(n int) service.Change {
	name := service.PortName{Namespace: "shop", Name: fmt.Sprint("s", n)}
	return service.Change{Name: name, Port: &service.Port{Name: name}}
}

// Whatever is in quarantine, changed and taken back: the one that has waited longest is due, and refusals are counted.
func TestWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r := newQuarantine(func(Refusal) {}), rand.New(rand.NewPCG(1, 2))
		defer a.timer.Stop()
		for range 2000 {
			c := changeOf(r.IntN(40))
			switch r.IntN(5) {
			case 0:
				a.put(c, []Reason{ByRules, ByListener, ByMode, ByPortal}[r.IntN(4)], errRefused)
			case 1:
				a.drop(c.Name)
			case 2:
				a.queue(c)
			case 3:
				a.filter([]service.Change{c})
			case 4:
				time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
			}
			now, refused := time.Now(), 0
			var first *quarantined
			for _, kept := range a.ports {
				if kept.reason != "" {
					refused++
				}
				if !kept.next.IsZero() && !now.Before(kept.next) && (first == nil || kept.next.Before(first.next)) {
					first = kept
				}
			}
			got, ok := a.due(now)
			if ok != (first != nil) || ok && !a.ports[got.Name].next.Equal(first.next) || a.refused != refused {
				t.Fatalf("due: %v, %v, want %+v; %d refused, want %d", got.Name, ok, first, a.refused, refused)
			}
		}
	})
}

// BenchmarkQuarantine is a sync while many are in quarantine: one is tried, and refused again.
func BenchmarkQuarantine(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := newQuarantine(func(Refusal) {})
			defer a.timer.Stop()
			for i := range n {
				a.queue(changeOf(i))
			}
			refused := errRefused
			now := time.Now()
			for b.Loop() {
				now = now.Add(time.Hour)
				if c, ok := a.due(now); ok {
					a.put(c, ByListener, refused)
				}
				a.schedule()
			}
		})
	}
}

package writer

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/portal"
)

// ear is a Listener that remembers whether it listens.
type ear struct{ joined, left atomic.Int32 }

func (e *ear) Join() error                                { e.joined.Add(1); return nil }
func (e *ear) Leave() error                               { e.left.Add(1); return nil }
func (*ear) Run(context.Context, func(string, int)) error { return nil }
func (e *ear) listens() bool                              { return e.joined.Load() > e.left.Load() }

func parentOf(_ string, pid int) string { return map[int]string{7: "bash (pid 6)"}[pid] }

// A witness listens for the time that it was asked to, and not while rules are written.
func TestWitnessListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, h := &ear{}, &host{}
		w := open(t, h, options(t))
		w.Observe(&watch{state: 1}, NewWitness(e, parentOf))
		wrote := func() {
			t.Helper()
			joined, left, listens := e.joined.Load(), e.left.Load(), e.listens()
			if err := w.Replace(t.Context(), []portal.Portal{redirect("10.96.0.1:80", 20000)}); err != nil {
				t.Fatal(err)
			}
			if listens && (e.left.Load() != left+1 || e.joined.Load() != joined+1) {
				t.Error("it listens to what its own writer writes")
			}
		}
		wrote()
		if e.joined.Load() > 0 {
			t.Error("it listens unasked")
		}
		w.Watch(time.Minute)
		wrote()
		if !e.listens() {
			t.Error("it does not listen")
		}
		time.Sleep(50 * time.Second)
		w.Watch(time.Minute)
		time.Sleep(50 * time.Second)
		if !e.listens() {
			t.Error("it was asked again, and does not listen any more")
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if e.listens() {
			t.Error("it listens longer than asked")
		}
		wrote()
		if e.listens() {
			t.Error("it listens after a write")
		}
	})
}

// Programs are remembered by name and by who started them, the last one first, and no more than a few.
func TestCulprits(t *testing.T) {
	w := NewWitness(&ear{}, parentOf)
	w.saw("nft", 7)
	w.saw("iptables", 9)
	w.saw("nft", 8) // which ended before anybody looked
	var got []string
	for _, c := range w.Culprits() {
		got = append(got, fmt.Sprint(c, " ", c.Times))
	}
	if want := []string{"nft (pid 8) of bash (pid 6) 2", "iptables (pid 9) 1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := range 20 {
		w.saw(fmt.Sprint("p", i), i)
	}
	if all := w.Culprits(); len(all) != mostCulprits || all[0].Process != "p19" {
		t.Errorf("%d culprits, %v", len(all), all)
	}
	var none *Witness
	if none.Watch(time.Second); none.Culprits() != nil || none.Listen(t.Context()) != nil {
		t.Error("nobody sees somebody")
	}
}

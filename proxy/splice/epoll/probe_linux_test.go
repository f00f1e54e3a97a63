package epoll

import (
	"testing"
	"time"

	"github.com/portald/portald/proxy/splice"
)

// A loop that hangs is found by its pending probe, and one that sleeps without timers is not reported.
func TestSilentLoop(t *testing.T) {
	r := newRigOf(t, 3, splice.Options{})
	answered := func() {
		t.Helper()
		for began := time.Now(); r.pending() > 0; time.Sleep(time.Millisecond) {
			if time.Since(began) > 10*time.Second {
				t.Fatal("an idle loop does not answer")
			}
		}
	}
	quiet := func() {
		t.Helper()
		r.Silent()
		answered()
		if d := r.Silent(); d != 0 {
			t.Errorf("silent for %v, though all answered", d)
		}
		answered()
	}
	quiet()
	time.Sleep(50 * time.Millisecond)
	quiet() // time without a probe does not count
	hang := make(chan struct{})
	r.loops[1].do(func() { <-hang })
	r.Silent()
	time.Sleep(50 * time.Millisecond)
	if d := r.Silent(); d < 50*time.Millisecond || d > time.Minute {
		t.Errorf("a loop hangs for 50ms, and Silent returns %v", d)
	}
	close(hang)
	quiet()
	r.stop()
	if d := r.Silent(); d != 0 {
		t.Errorf("silent for %v after the end", d)
	}
}

// pending counts the loops that have not answered their probe.
func (r *rig) pending() (n int) {
	for _, l := range r.loops {
		if l.probe.pending.Load() > 0 {
			n++
		}
	}
	return n
}

package epoll

import (
	"testing"
	"time"

	"github.com/portald/portald/proxy/splice"
)

// A loop that hangs is found by the answer that it owes, and one that sleeps without timers is not taken for one.
func TestSilentLoop(t *testing.T) {
	r := newRigOf(t, 3, splice.Options{})
	answered := func() {
		t.Helper()
		for began := time.Now(); r.owes() > 0; time.Sleep(time.Millisecond) {
			if time.Since(began) > 10*time.Second {
				t.Fatal("a loop that has nothing to do does not answer")
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
	quiet() // nobody owes anything for a time in which nobody asked
	hang := make(chan struct{})
	r.loops[1].do(func() { <-hang })
	r.Silent()
	time.Sleep(50 * time.Millisecond)
	if d := r.Silent(); d < 50*time.Millisecond || d > time.Minute {
		t.Errorf("one loop hangs for 50ms, and is said to be silent for %v", d)
	}
	close(hang)
	quiet()
	r.stop()
	if d := r.Silent(); d != 0 {
		t.Errorf("silent for %v after the end", d)
	}
}

// owes counts the loops that owe an answer.
func (r *rig) owes() (n int) {
	for _, l := range r.loops {
		if l.pulse.owes.Load() > 0 {
			n++
		}
	}
	return n
}

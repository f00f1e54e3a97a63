package writer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/portald/portald/portal"
)

// Listener is told by the kernel who changes what a Writer wrote, while it has joined.
type Listener interface {
	Join() error
	Leave() error
	// Run calls seen for each change until ctx ends.
	Run(ctx context.Context, seen func(process string, pid int)) error
}

// Witness knows who changes what a Writer wrote. It listens for a time after it was asked to, and never while the
// Writer itself writes. Safe for concurrent use; a nil one sees nobody.
type Witness struct {
	listener Listener
	parent   func(process string, pid int) string

	mu       sync.Mutex
	until    time.Time   // it listens
	end      *time.Timer // then; nil: it does not listen
	writing  bool
	culprits []portal.Culprit
}

// NewWitness returns a Witness; parent returns who started a process, empty if that is not known.
func NewWitness(l Listener, parent func(process string, pid int) string) *Witness {
	return &Witness{listener: l, parent: parent}
}

// Watch implements portal.Writer.
func (w *Witness) Watch(d time.Duration) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.until = time.Now().Add(d); w.end != nil {
		w.end.Reset(d)
		return
	}
	if w.end = time.AfterFunc(d, w.stop); !w.writing {
		_ = w.listener.Join() // who is not told sees nobody
	}
}

func (w *Witness) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Now().Before(w.until) {
		return // it was asked again at this moment
	}
	if w.end = nil; !w.writing {
		_ = w.listener.Leave()
	}
}

// withoutListening runs a write of the Writer, whose own changes are not to be reported.
func (w *Witness) withoutListening(write func() error) error {
	if w == nil {
		return write()
	}
	w.turn(true, w.listener.Leave)
	defer w.turn(false, w.listener.Join)
	return write()
}

// turn begins or ends a write, and does what that takes if it listens.
func (w *Witness) turn(writing bool, do func() error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writing = writing; w.end != nil {
		_ = do()
	}
}

// Listen implements portal.Writer.
func (w *Witness) Listen(ctx context.Context) error {
	if w == nil {
		return nil
	}
	return w.listener.Run(ctx, w.saw)
}

// mostCulprits bounds how many are remembered, the last ones.
const mostCulprits = 8

func (w *Witness) saw(process string, pid int) {
	c := portal.Culprit{Process: process, PID: pid, Parent: w.parent(process, pid), Times: 1, Last: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	same := func(o portal.Culprit) bool { return o.Process == c.Process && (o.Parent == c.Parent || c.Parent == "") }
	if i := slices.IndexFunc(w.culprits, same); i >= 0 {
		c.Times += w.culprits[i].Times
		if c.Parent == "" { // it had ended before anybody looked
			c.Parent = w.culprits[i].Parent
		}
		w.culprits = slices.Delete(w.culprits, i, i+1)
	}
	w.culprits = slices.Insert(w.culprits, 0, c)
	w.culprits = w.culprits[:min(len(w.culprits), mostCulprits)]
}

// Culprits implements portal.Writer.
func (w *Witness) Culprits() []portal.Culprit {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.culprits)
}

package merge

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
)

const (
	// together is how long a line that is followed waits for earlier ones of other nodes.
	together = 300 * time.Millisecond
	// mostHeld bounds the lines that wait so, in bytes: some 20,000 records, of 60,000 a second. Those that come faster
	// wait for less.
	mostHeld = 16 << 20
)

// follow writes the last lines, and then new ones until ctx ends. Lines wait for a moment, so that they are in the
// order of time though they come from several nodes. A node that is lost is asked again and again, and one that joins
// is asked too; if none answers at first, that is the error.
func (h *handler) follow(ctx context.Context, r *http.Request, out *lines, last int) error {
	incoming := make(chan line, laneLines)
	nodes := &readers{h: h, r: r, incoming: incoming, failed: make(chan error, len(h.nodes))}
	go nodes.read(ctx)
	f := &follower{out: out, last: last, began: time.Now(), nodes: nodes}
	if err := out.flush(); err != nil { // the caller knows that it is answered
		return err
	}
	tick := time.NewTicker(together / 6)
	defer tick.Stop()
	for failed := 0; ; {
		var err error
		select {
		case l := <-incoming:
			err = f.hold(l)
		case now := <-tick.C:
			err = f.write(now, h.Wait)
		case err = <-nodes.failed:
			if failed++; failed < len(h.nodes) {
				err = nil
			}
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// lost is why a stream that should not end has ended.
func lost(err error) error {
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w any more: it ended, or closed this stream", adminsocket.ErrNotReachable)
	}
	return err
}

// follower holds lines until they are written.
type follower struct {
	out     *lines
	last    int // lines of the past that are wanted
	began   time.Time
	nodes   *readers
	all     time.Time // when all had answered, or failed; zero: not yet
	present bool      // the past is written
	held    lineHeap
	bytes   int    // of these
	read    uint64 // lines
}

func (f *follower) hold(l line) error {
	if adminsocket.IsOfNode(l.text) {
		return f.out.add(l)
	}
	f.read++
	l.nth = f.read
	heap.Push(&f.held, l)
	for f.bytes += len(l.text); f.bytes > mostHeld; {
		if err := f.out.add(f.pop()); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) pop() line {
	l := heap.Pop(&f.held).(line)
	f.bytes -= len(l.text)
	return l
}

// write writes what has waited long enough. What is past waits until all nodes had time to say theirs.
func (f *follower) write(now time.Time, wait time.Duration) error {
	if !f.present {
		if f.all.IsZero() && f.nodes.haveAnswered() {
			f.all = now
		}
		if now.Sub(f.began) < wait && (f.all.IsZero() || now.Sub(f.all) < together) {
			return nil
		}
		f.present = true
		f.trim()
	}
	return f.until(now.Add(-together))
}

// trim drops the lines of the past that are more than wanted.
func (f *follower) trim() {
	past := 0
	for _, l := range f.held {
		if l.at.Before(f.began) {
			past++
		}
	}
	for ; past > f.last; past-- {
		f.pop()
	}
}

// until writes the earliest lines as long as they came before a moment.
func (f *follower) until(came time.Time) error {
	for len(f.held) > 0 && f.held[0].came.Before(came) {
		if err := f.out.add(f.pop()); err != nil {
			return err
		}
	}
	return f.out.flush()
}

// lineHeap has the earliest line first.
type lineHeap []line

// Len implements heap.Interface.
func (h lineHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h lineHeap) Less(i, j int) bool { return h[i].before(h[j]) }

// Swap implements heap.Interface.
func (h lineHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *lineHeap) Push(l any) { *h = append(*h, l.(line)) }

// Pop implements heap.Interface.
func (h *lineHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = line{}
	*h = (*h)[:last]
	return l
}

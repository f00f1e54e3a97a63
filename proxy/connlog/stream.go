package connlog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/proxy/record"
)

// DefaultStream is how many records a Stream keeps by default.
const DefaultStream = 8192

// ErrClosed is returned by Next once its Follower is closed.
var ErrClosed = errors.New("the follower is closed")

// Stream is the last records in memory, and those who follow them. Observe neither blocks nor waits for a follower: one
// that is too slow misses records, and learns how many. Safe for concurrent use.
type Stream struct {
	made      time.Time
	slots     []atomic.Pointer[entry] // a ring; the entry of position n is at n modulo its length
	followers followers
	lost      atomic.Uint64 // see Lost

	_    [64]byte // what follows is written for each record
	next atomic.Uint64
}

// entry is a record and its position, counted from 0 since the start.
type entry struct {
	position uint64
	record   *record.Record
}

// NewStream returns a Stream that keeps so many records, at least one.
func NewStream(size int) *Stream {
	return &Stream{made: time.Now(), slots: make([]atomic.Pointer[entry], max(size, 1))}
}

// Observe implements record.Observer.
func (s *Stream) Observe(r *record.Record) {
	e := &entry{s.next.Add(1) - 1, r}
	slot := s.slot(e.position)
	for {
		old := slot.Load()
		if old != nil && old.position > e.position { // the ring went round meanwhile
			break
		}
		if slot.CompareAndSwap(old, e) {
			break
		}
	}
	s.followers.wake()
}

// Since is the time from which on no record is missing: the stream was made then, or, if it holds earlier ones or has
// dropped some, its oldest ended.
func (s *Stream) Since() time.Time {
	end := s.next.Load()
	kept := min(end, uint64(len(s.slots)))
	e := s.slot(end - kept).Load()
	if kept == 0 || e == nil {
		return s.made
	}
	oldest := e.record.Start.Add(e.record.Duration)
	if kept == end && oldest.After(s.made) {
		return s.made
	}
	return oldest
}

// Lost tells followers, with the next record, of so many that never came to be: they count as missed.
func (s *Stream) Lost(n uint64) { s.lost.Add(n) }

// Last returns at most n of the last records, those that keep admits, in the order in which they ended. A nil keep
// admits all.
func (s *Stream) Last(n int, keep func(*record.Record) bool) []*record.Record {
	return s.last(s.next.Load(), n, keep)
}

// last returns those before the position end.
func (s *Stream) last(end uint64, n int, keep func(*record.Record) bool) (out []*record.Record) {
	oldest := end - min(end, uint64(len(s.slots)))
	for p := end; p > oldest && len(out) < n; p-- {
		e := s.slot(p - 1).Load()
		if e != nil && e.position == p-1 && (keep == nil || keep(e.record)) {
			out = append(out, e.record)
		}
	}
	slices.Reverse(out)
	return out
}

func (s *Stream) slot(position uint64) *atomic.Pointer[entry] {
	return &s.slots[position%uint64(len(s.slots))]
}

// Follow returns a follower of the records from now on, which may be so many records behind before it misses some; 0,
// and more than the stream keeps: as many as it keeps. The caller closes it.
func (s *Stream) Follow(behind int) *Follower {
	if behind <= 0 || behind > len(s.slots) {
		behind = len(s.slots)
	}
	start := s.next.Load()
	f := &Follower{
		stream: s, behind: uint64(behind), start: start, position: start, lost: s.lost.Load(),
		wake: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	s.followers.change(func(all []*Follower) []*Follower { return append(all, f) })
	return f
}

// Follower reads records as they are observed. One goroutine reads, and any may close it.
type Follower struct {
	stream   *Stream
	behind   uint64
	start    uint64 // position of the first record
	position uint64 // of the next one
	lost     uint64 // of the stream, that were told
	waits    atomic.Bool
	wake     chan struct{}
	closing  sync.Once
	closed   chan struct{}
}

// Last returns at most n of the records before the first that Next returns, those that keep admits: together with the
// records that Next returns none is missing and none is there twice.
func (f *Follower) Last(n int, keep func(*record.Record) bool) []*record.Record {
	return f.stream.last(f.start, n, keep)
}

// Next waits for the next record, and returns it with the number of records that were missed just before it. The error
// is ErrClosed, or why ctx ended; with an error too some may have been missed.
func (f *Follower) Next(ctx context.Context) (r *record.Record, missed uint64, err error) {
	for {
		var ok bool
		if r, missed, ok = f.poll(missed); ok {
			return r, missed + f.newlyLost(), nil
		}
		f.waits.Store(true)
		if r, missed, ok = f.poll(missed); ok { // it may have come before waits was set
			f.waits.Store(false)
			return r, missed + f.newlyLost(), nil
		}
		select {
		case <-f.wake:
		case <-f.closed:
			return nil, missed, ErrClosed
		case <-ctx.Done():
			return nil, missed, context.Cause(ctx)
		}
	}
}

func (f *Follower) newlyLost() uint64 {
	all := f.stream.lost.Load()
	n := all - f.lost
	f.lost = all
	return n
}

// poll returns the next record if it is there.
func (f *Follower) poll(missed uint64) (*record.Record, uint64, bool) {
	for {
		next := f.stream.next.Load()
		if next == f.position {
			return nil, missed, false
		}
		if lag := next - f.position; lag > f.behind {
			missed += lag - f.behind
			f.position = next - f.behind
		}
		e := f.stream.slot(f.position).Load()
		if e == nil || e.position < f.position { // it is being stored
			return nil, missed, false
		}
		f.position++
		if e.position == f.position-1 {
			return e.record, missed, true
		}
		missed++ // another took its place just now
	}
}

// Close ends Next.
func (f *Follower) Close() {
	f.closing.Do(func() {
		close(f.closed)
		f.stream.followers.change(func(all []*Follower) []*Follower {
			return slices.DeleteFunc(all, func(other *Follower) bool { return other == f })
		})
	})
}

// followers is a list that is replaced as a whole, so that reading it costs one atomic load.
type followers struct {
	mu   sync.Mutex // held by change
	list atomic.Pointer[[]*Follower]
}

func (l *followers) change(edit func([]*Follower) []*Follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*Follower
	if list := l.list.Load(); list != nil {
		all = slices.Clone(*list)
	}
	all = edit(all)
	l.list.Store(&all)
}

// wake wakes the followers that wait.
func (l *followers) wake() {
	list := l.list.Load()
	if list == nil {
		return
	}
	for _, f := range *list {
		if f.waits.Load() && f.waits.CompareAndSwap(true, false) {
			signal(f.wake)
		}
	}
}

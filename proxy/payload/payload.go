// Package payload keeps what clients and endpoints have sent in connections that ended badly: the first and the last
// bytes of each direction, in memory alone. A Keeper has those of an open connection, and a Ring those of connections
// that have ended, up to a number of bytes:
//
//	k := payload.NewKeeper(memory)      // once an endpoint is reached
//	k.FromClient.Observe(offset, bytes)     // each load, by whoever reads it
//	kept := k.End(fromClient, fromEndpoint)
//	ring.Add(record, kept)              // or it is let go
//
// It is data of clients: nothing here is logged, and the package does not decide who may see it.
package payload

import (
	"fmt"
	"sync"
)

// Most is how many bytes are kept of the beginning of a direction, and of its end.
const Most = 2 << 10

// least is the size of the first buffer for them, in bytes. It doubles as more is needed.
const least = 256

// Memory grants the bytes in which the payload of open connections is kept. Safe for concurrent use.
type Memory interface {
	Take(bytes int64) bool
	Give(bytes int64)
}

// Keeper has the payload of an open connection.
type Keeper struct {
	FromClient, FromEndpoint Stream
}

// NewKeeper returns a Keeper that has seen nothing yet.
func NewKeeper(m Memory) *Keeper {
	k := &Keeper{}
	k.FromClient.memory, k.FromEndpoint.memory = m, m
	return k
}

// End returns what was kept, of streams of so many bytes, and gives back the memory. What is seen later is ignored.
func (k *Keeper) End(fromClient, fromEndpoint int64) *Kept {
	kept := &Kept{FromClient: k.FromClient.kept(fromClient), FromEndpoint: k.FromEndpoint.kept(fromEndpoint)}
	k.Release()
	return kept
}

// Release is End for what nobody wants. It may be called again.
func (k *Keeper) Release() {
	k.FromClient.release()
	k.FromEndpoint.release()
}

// Kept is what was kept of a connection.
type Kept struct {
	FromClient, FromEndpoint Direction
}

// size is how many bytes of payload it has.
func (k *Kept) size() (n int64) {
	for _, d := range []*Direction{&k.FromClient, &k.FromEndpoint} {
		for _, p := range d.Parts {
			n += int64(len(p.Data))
		}
	}
	return n
}

// Direction is what one side has sent.
type Direction struct {
	Bytes int64  // of the whole stream
	Parts []Part // none, or what there was first, or this and the last, in order; they do not overlap
	// Lacks is why the parts are not the first and the last Most bytes; empty: they are, or there were no more bytes.
	Lacks string
}

// Part is bytes that came one after the other.
type Part struct {
	Offset int64 // in the stream, of the first of them
	Data   []byte
}

// Stream keeps the first and the last bytes of one direction. Safe for concurrent use.
type Stream struct {
	memory Memory

	mu      sync.Mutex
	over    bool   // guarded by mu, as is the rest: nothing is kept any more
	end     int64  // of what was seen, as a place in the stream
	first   []byte // what was seen first
	firstAt int64  // its place
	whole   bool   // first is as long as it gets
	last    tail   // of what was seen behind it
	missed  int64  // bytes that nobody has shown
	short   bool   // there was too little memory
}

// Observe is called with bytes that were read, which are at that place in the stream. Places only grow; what is left
// out was not seen.
func (s *Stream) Observe(at int64, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || len(b) == 0 {
		return
	}
	if at != s.end {
		s.missed += max(0, at-s.end)
		s.last.clear()
		s.whole = len(s.first) > 0
	}
	if len(s.first) == 0 {
		s.firstAt = at
	}
	s.end = at + int64(len(b))
	if !s.whole {
		b = b[s.begin(b):]
	}
	if len(b) > 0 {
		s.last.put(b, s.grant(len(s.last.bytes), s.last.held+len(b)))
	}
}

// begin adds to first, and returns how many bytes were added. mu is held.
func (s *Stream) begin(b []byte) (n int) {
	size := s.grant(cap(s.first), len(s.first)+len(b))
	if size > cap(s.first) {
		s.first = append(make([]byte, 0, size), s.first...)
	}
	n = min(len(b), cap(s.first)-len(s.first))
	s.first = append(s.first, b[:n]...)
	s.whole = n < len(b) || len(s.first) == Most
	return n
}

// grant returns the size of a buffer for that many bytes, of which there are so many: as it is if no more is granted.
func (s *Stream) grant(has, need int) (size int) {
	if has == Most || need <= has {
		return has
	}
	for size = max(has, least); size < min(need, Most); size *= 2 {
	}
	if !s.memory.Take(int64(size - has)) {
		s.short = true
		return has
	}
	return size
}

func (s *Stream) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.memory.Give(int64(cap(s.first) + len(s.last.bytes)))
	s.first, s.last = nil, tail{}
}

// kept returns copies of what is kept of a stream of so many bytes.
func (s *Stream) kept(total int64) Direction {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := Direction{Bytes: max(total, s.end)}
	if len(s.first) > 0 {
		d.Parts = append(d.Parts, Part{s.firstAt, append([]byte(nil), s.first...)})
	}
	if s.last.held > 0 {
		d.Parts = append(d.Parts, Part{s.end - int64(s.last.held), s.last.copied()})
	}
	switch behind := d.Bytes - s.end; {
	case s.missed > 0:
		d.Lacks = fmt.Sprintf("%d bytes were not seen: they came before the annotation, or another portald carried them",
			s.missed)
	case behind > 0 && s.end == 0:
		d.Lacks = fmt.Sprintf("%d bytes were not seen", behind)
	case behind > 0:
		d.Lacks = fmt.Sprintf("the last %d bytes were not seen: they came when the connection had ended", behind)
	case s.short:
		d.Lacks = "memory for the payload of open connections was scarce"
	}
	return d
}

// tail has the last bytes of what is put there: a ring.
type tail struct {
	bytes []byte
	held  int // of these
	next  int // where the next byte goes
}

// put adds bytes to a buffer that is to have that size.
func (t *tail) put(b []byte, size int) {
	if size > len(t.bytes) {
		grown := make([]byte, size)
		t.next = copy(grown, t.copied())
		t.bytes = grown
	}
	if size == 0 {
		return
	}
	b = b[max(0, len(b)-size):]
	n := copy(t.bytes[t.next:], b)
	copy(t.bytes, b[n:])
	t.next = (t.next + len(b)) % size
	t.held = min(t.held+len(b), size)
}

// copied returns the bytes in their order.
func (t *tail) copied() []byte {
	if t.held < len(t.bytes) {
		return append([]byte(nil), t.bytes[:t.held]...)
	}
	return append(append([]byte(nil), t.bytes[t.next:]...), t.bytes[:t.next]...)
}

func (t *tail) clear() { t.held, t.next = 0, 0 }

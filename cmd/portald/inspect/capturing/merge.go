package capturing

import (
	"container/heap"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/portald/portald/platform/packets"
	"github.com/portald/portald/proxy/capture"
)

// sink gets the packets of all nodes in the order of time.
type sink interface {
	packet(*waiting) error
	flush() error
}

// merger orders packets of several streams by time. Its streams are read by a goroutine each.
type merger struct {
	mu      sync.Mutex
	to      sink       // guarded by mu, and all that follows
	patient bool       // packets wait for earlier ones as long as any may come, else for hurry at most
	room    int        // bytes that may wait
	waits   int        // of these, that are taken
	queue   packetHeap // of packets that wait
	streams []*stream  // all of them
	count   uint64     // of packets that came
	began   func()     // called once all streams have begun; nil: it was
}

// hurry is how long a packet waits for earlier ones where somebody looks on.
const hurry = time.Second

// silentFor is after how long without a word a node is not waited for: its packets may come late then.
const silentFor = 5 * time.Second

// stream is the capture of one node. It implements capture.Receiver.
type stream struct {
	node        string
	merger      *merger
	interfaces  map[int]packets.Interface
	connections map[uint32]*capture.Connection
	progress    capture.Progress
	heard       time.Time    // when that came; before, when the stream was asked for
	end         *capture.End // nil: it goes on, or was cut off
	over        bool
}

func newMerger(to sink, patient bool, room int, began func()) *merger {
	return &merger{to: to, patient: patient, room: room, began: began}
}

// stream adds a node.
func (m *merger) stream(node string) *stream {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &stream{node: node, merger: m, interfaces: map[int]packets.Interface{},
		connections: map[uint32]*capture.Connection{}, heard: time.Now()}
	s.progress.Before = math.MinInt64
	m.streams = append(m.streams, s)
	return s
}

// Interface implements capture.Receiver.
func (s *stream) Interface(i packets.Interface) error {
	s.merger.mu.Lock()
	defer s.merger.mu.Unlock()
	s.interfaces[i.Index] = i
	return nil
}

// Connection implements capture.Receiver.
func (s *stream) Connection(number uint32, c *capture.Connection) error {
	s.merger.mu.Lock()
	defer s.merger.mu.Unlock()
	s.connections[number] = c
	return nil
}

// Packet implements capture.Receiver.
func (s *stream) Packet(p *capture.Packet) error {
	m := s.merger
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count++
	kept := *p
	kept.Data = slices.Clone(p.Data)
	heap.Push(&m.queue, &waiting{&kept, s, s.interfaces[p.Interface], m.count})
	m.waits += len(kept.Data)
	for m.waits > m.room {
		if err := m.pop(); err != nil {
			return err
		}
	}
	return nil
}

// Progress implements capture.Receiver.
func (s *stream) Progress(p capture.Progress) error {
	s.merger.mu.Lock()
	defer s.merger.mu.Unlock()
	s.progress, s.heard = p, time.Now()
	return s.merger.release(s.heard)
}

// End implements capture.Receiver.
func (s *stream) End(e capture.End) error {
	s.merger.mu.Lock()
	defer s.merger.mu.Unlock()
	s.end = &e
	return nil
}

// leave is called when a stream is over, however it ended.
func (s *stream) leave() error {
	s.merger.mu.Lock()
	defer s.merger.mu.Unlock()
	s.over = true
	return s.merger.release(time.Now())
}

// statistics are the last that the stream told.
func (s *stream) statistics() capture.Statistics {
	s.merger.mu.Lock()
	defer s.merger.mu.Unlock()
	if s.end != nil {
		return s.end.Statistics
	}
	return s.progress.Statistics
}

// release passes on what no stream can be earlier than.
func (m *merger) release(now time.Time) error {
	before := int64(math.MaxInt64)
	for _, s := range m.streams {
		if !s.over && now.Sub(s.heard) < silentFor {
			before = min(before, s.progress.Before)
		}
	}
	if m.began != nil && before != math.MinInt64 {
		m.began()
		m.began = nil
	}
	if !m.patient {
		before = max(before, now.Add(-hurry).UnixNano())
	}
	some := false
	for len(m.queue) > 0 && m.queue[0].Time < before {
		some = true
		if err := m.pop(); err != nil {
			return err
		}
	}
	if !some {
		return nil
	}
	return m.to.flush()
}

func (m *merger) pop() error {
	w := heap.Pop(&m.queue).(*waiting)
	m.waits -= len(w.Data)
	return m.to.packet(w)
}

// finish passes on what is left.
func (m *merger) finish() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.queue) > 0 {
		if err := m.pop(); err != nil {
			return errors.Join(err, m.to.flush())
		}
	}
	return m.to.flush()
}

// waiting is a packet that waits for earlier ones.
type waiting struct {
	*capture.Packet
	from   *stream
	at     packets.Interface
	number uint64
}

// connection is what is known by now of the connection that it belongs to.
func (w *waiting) connection() *capture.Connection { return w.from.connections[w.Connection] }

// packetHeap has the earliest packet first, and of several at one time the one that came first.
type packetHeap []*waiting

// Len implements heap.Interface.
func (h packetHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h packetHeap) Less(i, j int) bool {
	return h[i].Time < h[j].Time || h[i].Time == h[j].Time && h[i].number < h[j].number
}

// Swap implements heap.Interface.
func (h packetHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *packetHeap) Push(x any) { *h = append(*h, x.(*waiting)) }

// Pop implements heap.Interface.
func (h *packetHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}

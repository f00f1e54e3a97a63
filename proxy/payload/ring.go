package payload

import (
	"sync"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// RingBytes is how many bytes a Ring of a daemon has: hundreds of connections with all that is kept of one, or
// thousands of short ones.
const RingBytes = 4 << 20

// entryBytes is what a connection takes beside its payload, roughly: its record.
const entryBytes = 1 << 10

// openPart is which part of the bytes may be used, in addition to these, by connections of which it is still open
// whether they ended badly.
const openPart = 4

// Entry is a connection that ended badly, and what was kept of it. It does not change.
type Entry struct {
	Record *record.Record
	*Kept
}

// size is what it takes of a Ring.
func (e *Entry) size() int64 { return entryBytes + e.Kept.size() }

// Ring has the payload of the last connections that ended badly, of the service ports that keep it. Safe for concurrent
// use.
type Ring struct {
	most int64

	mu      sync.Mutex
	keeps   map[service.PortName]struct{} // guarded by mu, as is the rest
	entries []Entry                       // the oldest first
	bytes   int64
	open    int64 // bytes of which it is open what becomes of them
	dropped uint64
}

// Content is what a Ring has at a moment.
type Content struct {
	Entries  []Entry // the oldest first
	Services int     // service ports of which payload is kept
	Bytes    int64   // that all take
	Most     int64
	Dropped  uint64 // connections, since the start, that there was no room for: the oldest go first
}

// NewRing returns a Ring of so many bytes.
func NewRing(most int64) *Ring {
	return &Ring{most: most, keeps: map[service.PortName]struct{}{}}
}

// Changed tells of a change of a service port, as service.Store.Watch does: one that no longer keeps payload loses what
// is there.
func (r *Ring) Changed(old, new *service.Port) {
	was, is := keeps(old), keeps(new)
	switch {
	case is && !was:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.keeps[new.Name] = struct{}{}
	case was && !is:
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.keeps, old.Name)
		r.forget(old.Name)
	}
}

func keeps(p *service.Port) bool { return p != nil && p.Policy.KeepPayload == service.KeepBadlyEnded }

// forget lets go of what a service port has. mu is held.
func (r *Ring) forget(name service.PortName) {
	var left []Entry
	for _, e := range r.entries {
		if e.Record.Service == name {
			r.bytes -= e.size()
		} else {
			left = append(left, e)
		}
	}
	r.entries = left
}

// Await makes room for what was kept of a connection of which it is still open how it ended, until Decide. False: there
// is none, and it is dropped.
func (r *Ring) Await(k *Kept) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := k.size()
	if r.open+n > r.most/openPart {
		r.dropped++
		return false
	}
	r.open += n
	return true
}

// Decide ends what Await began: it is added, or let go.
func (r *Ring) Decide(of *record.Record, k *Kept) {
	r.mu.Lock()
	r.open -= k.size()
	r.mu.Unlock()
	r.Add(of, k)
}

// Add adds a connection, if it ended badly and its service port still keeps payload. The oldest ones make room for it.
func (r *Ring) Add(of *record.Record, k *Kept) {
	n := k.size()
	if of.Outcome.Well() || n == 0 && k.FromClient.Lacks == "" && k.FromEndpoint.Lacks == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, keeps := r.keeps[of.Service]; !keeps {
		return
	}
	e := Entry{of, k}
	r.entries, r.bytes = append(r.entries, e), r.bytes+e.size()
	for r.bytes > r.most {
		r.bytes -= r.entries[0].size()
		r.entries[0] = Entry{}
		r.entries = r.entries[1:]
		r.dropped++
	}
}

// Content returns what there is now.
func (r *Ring) Content() Content {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Content{
		Entries: append([]Entry(nil), r.entries...), Services: len(r.keeps), Bytes: r.bytes, Most: r.most, Dropped: r.dropped,
	}
}

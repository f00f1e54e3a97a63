package splice

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/record"
)

// Traffic counts the bytes of a connection or session. Its owner writes it, and any goroutine reads it.
type Traffic struct{ FromClient, ToEndpoint, FromEndpoint, ToClient atomic.Int64 }

// Snapshot lists the open connections and sessions. It stops nothing: a connection that begins or ends meanwhile may be
// in it or not.
func (r *Registry) Snapshot() []record.Live {
	return liveOf(r.open())
}

// SnapshotPart lists one of record.SnapshotParts parts of a Snapshot, from 0. All are about as large, and a connection
// is always in the same one.
func (r *Registry) SnapshotPart(part int) []record.Live {
	return liveOf(r.shards[part].appendTo(nil))
}

func liveOf(members []member) []record.Live {
	all := make([]record.Live, len(members))
	for i, m := range members {
		all[i] = m.live()
	}
	return all
}

// All yields the elements of a Snapshot, one at a time: each overwrites the one before, which takes no memory for all
// of them.
func (r *Registry) All() iter.Seq[*record.Live] { return r.eachOf(func(member) bool { return true }) }

// AllSessions is All of the UDP sessions alone.
func (r *Registry) AllSessions() iter.Seq[*record.Live] {
	return r.eachOf(func(m member) bool {
		return m.common().front.name.Protocol == inet.UDP
	})
}

func (r *Registry) eachOf(is func(member) bool) iter.Seq[*record.Live] {
	return func(yield func(*record.Live) bool) {
		var l record.Live
		for _, m := range r.open() {
			if !is(m) {
				continue
			}
			if l = m.live(); !yield(&l) {
				return
			}
		}
	}
}

// open lists all that are registered.
func (r *Registry) open() []member { return r.all(r.counts.conns.Load() + r.counts.sessions.Load()) }

// Cut ends a connection or session by force, soon: its record has OutcomeCut. False: there is none with that id.
func (r *Registry) Cut(id uint64) bool {
	m := r.find(id)
	if m != nil {
		m.cutSoon()
	}
	return m != nil
}

// Registry has all open connections and sessions, by id. Ids are consecutive, so that event loops seldom wait for each
// other's shard. An element is as small as can be, and is found by a scan of its shard: only Cut looks for one. Safe
// for concurrent use.
type Registry struct {
	counts         *counts
	readingTCPInfo chan struct{} // has one element while ReadTCPInfo runs
	shards         [registryShards]registryShard
}

// counts has the numbers of open connections and sessions.
type counts struct{ conns, sessions, waiting, delivering atomic.Int64 }

const registryShards = record.SnapshotParts

type registryShard struct {
	mu      sync.Mutex
	members []member // guarded by mu; each knows its index
	_       [32]byte // a cache line each
}

// member is a connection or session. Any goroutine may call it, also when it has ended.
type member interface {
	live() record.Live
	cutSoon()
	countSoon() // counts it for its client, where that is limited
	common() *entry
}

func (r *Registry) shard(id uint64) *registryShard { return &r.shards[id%registryShards] }

func (r *Registry) add(m member) {
	f := m.common()
	s := r.shard(f.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	f.index = uint32(len(s.members))
	s.members = append(s.members, m)
}

// remove puts the last of the shard in the place of m.
func (r *Registry) remove(m member) {
	f := m.common()
	s := r.shard(f.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	end := len(s.members) - 1
	last := s.members[end]
	s.members[f.index], last.common().index = last, f.index
	s.members[end] = nil
	s.members = s.members[:end]
}

func (r *Registry) find(id uint64) member {
	s := r.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if m.common().id == id {
			return m
		}
	}
	return nil
}

// all lists all that are open, of which there are about so many.
func (r *Registry) all(about int64) []member {
	all := make([]member, 0, about+about/8)
	for i := range r.shards {
		all = r.shards[i].appendTo(all)
	}
	return all
}

// each yields all that are open, one shard after the other, so that it takes no memory for all.
func (r *Registry) each(yield func(member) bool) {
	var some []member
	for i := range r.shards {
		some = r.shards[i].appendTo(some[:0])
		for _, m := range some {
			if !yield(m) {
				return
			}
		}
	}
}

func (s *registryShard) appendTo(all []member) []member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(all, s.members...)
}

// checkable is a member whose endpoint may be removed, or whose peers may be dead, while nothing happens to it.
type checkable interface {
	member
	checkEndpoint()                      // notes whether its endpoint is gone, or back
	checkSilent(last, now time.Duration) // looks for dead peers if it has been silent: see checkSilent
}

// payloadMember is a member of which payload is kept if the service port's policy says so.
type payloadMember interface {
	member
	updatePayloadSoon() // keeps payload, or releases it, as the policy says now
}

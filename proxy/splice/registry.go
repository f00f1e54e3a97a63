package splice

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portald/portald/proxy/service"
)

// Live is an open connection or UDP session at one moment.
type Live struct {
	ID          uint64 // the record's
	Start       time.Time
	Service     service.PortName
	Client      netip.AddrPort
	OriginalDst netip.AddrPort
	Portal      service.Kind
	Endpoint    service.Endpoint // its Addr is zero until an endpoint is reached

	BytesFromClient, BytesToEndpoint, BytesFromEndpoint, BytesToClient int64 // as in the record
}

// Traffic is what has been carried of a connection or session, in bytes. Its owner writes it, and any goroutine reads
// it.
type Traffic struct{ FromClient, ToEndpoint, FromEndpoint, ToClient atomic.Int64 }

// Snapshot lists what is open. It stops nothing: a connection that begins or ends meanwhile may be in it or not.
func (c *Core) Snapshot() []Live {
	members := c.registry.all()
	all := make([]Live, 0, len(members))
	for _, m := range members {
		all = append(all, m.live())
	}
	return all
}

// Cut ends a connection or session by force, soon: its record has OutcomeCut. False: there is none with that id.
func (c *Core) Cut(id uint64) bool {
	m := c.registry.find(id)
	if m != nil {
		m.cutSoon()
	}
	return m != nil
}

// CutAll ends all of them. An engine calls it when it ends, until none is left.
func (c *Core) CutAll() {
	for _, f := range c.openFronts() {
		f.cutSessions()
	}
	for _, m := range c.registry.all() {
		if conn, ok := m.(*Conn); ok {
			conn.cutSoon()
		}
	}
}

// registry is what is open, by id. Ids are consecutive, so that event loops seldom wait for each other's shard. An
// entry is as small as can be, and is found by a look at all of its shard: only Cut asks for one.
type registry struct{ shards [registryShards]registryShard }

const registryShards = 64

type registryShard struct {
	mu      sync.Mutex
	members []member // guarded by mu; each knows its index
	_       [32]byte // a cache line each
}

// member is a connection or session. Any goroutine may call it, also when it has ended.
type member interface {
	live() Live
	cutSoon()
	common() *life
}

func (r *registry) shard(id uint64) *registryShard { return &r.shards[id%registryShards] }

func (r *registry) add(m member) {
	f := m.common()
	s := r.shard(f.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	f.index = len(s.members)
	s.members = append(s.members, m)
}

// remove puts the last of the shard in the place of m.
func (r *registry) remove(m member) {
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

func (r *registry) find(id uint64) member {
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

func (r *registry) all() (all []member) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		all = append(all, s.members...)
		s.mu.Unlock()
	}
	return all
}

// live shows a connection or session that is registered, from any goroutine: what else it reads does not change any
// more.
func (f *life) live() Live {
	t := &f.traffic
	return Live{
		ID: f.id, Start: f.since, Service: f.front.name, Client: f.client, OriginalDst: f.dst, Portal: f.portal,
		Endpoint:        f.reached(),
		BytesFromClient: t.FromClient.Load(), BytesToEndpoint: t.ToEndpoint.Load(),
		BytesFromEndpoint: t.FromEndpoint.Load(), BytesToClient: t.ToClient.Load(),
	}
}

func (f *life) common() *life { return f }

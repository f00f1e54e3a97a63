package splice

import (
	"maps"
	"net/netip"

	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
)

// sessionClient is a client address of a UDP socket with its sessions.
type sessionClient struct {
	quota *quota.Client
	lists sessionLists
	n     int // sessions, with those that are being admitted
}

// sessionRoom decides how many sessions a socket and its clients may have, and which are evicted for others. It
// implements quota.Evicter.
type sessionRoom struct{ *Sessions }

func (t *Sessions) room() sessionRoom { return sessionRoom{t} }

// client finds a client address, or adds it, for one session more, until releaseClient.
func (t sessionRoom) client(addr netip.Addr) *sessionClient {
	c := t.clients[addr]
	if c == nil {
		c = &sessionClient{quota: t.front.quota.Client(addr), lists: newSessionLists(ofClient)}
		t.clients[addr] = c
	}
	c.n++
	t.n.Add(1)
	return c
}

func (t sessionRoom) releaseClient(c *sessionClient) {
	t.n.Add(-1)
	if c.n--; c.n == 0 {
		delete(t.clients, c.quota.Addr())
		c.quota.Leave()
	}
}

// maxEvicted is how many sessions at the most are evicted for a new one: a client or Service whose share has become
// less since it took its own shrinks to it.
const maxEvicted = 2

// makeRoom takes what a session of a client needs from the account, and evicts others where there is too little: its
// own, where the client has as many as it may. Where even maxEvicted were not enough, the new one takes less than they
// gave back: a share that has become less is shrunk to, and nobody new is refused for it. False: there is none to
// evict.
func (t sessionRoom) makeRoom(c *sessionClient) bool {
	for evicted := 0; ; evicted++ {
		if evicted == maxEvicted {
			c.quota.TakeSessionAnyway()
			return true
		}
		full := t.full(c)
		if !full {
			err := c.quota.TakeSession(int(t.n.Load()) - 1)
			if err == nil {
				return true
			}
			t.core().opts.Warn(err)
		}
		s := t.victim(c, !full && c.quota.IsHeavy())
		if s == nil {
			return false
		}
		s.end(record.Proxy, record.Timeout, record.OutcomeLimit)
	}
}

// Len implements quota.Evicter.
func (t sessionRoom) Len() int64 { return t.n.Load() }

// Evict implements quota.Evicter: it makes room for sessions of other Services, at the client with the most.
func (t sessionRoom) Evict(done func()) {
	t.soon(done, func() *sessionClient {
		return t.largest.Find(func(c *sessionClient) int64 { return int64(c.n) }, maps.Values(t.clients))
	})
}

// EvictOf implements quota.Evicter.
func (t sessionRoom) EvictOf(client netip.Addr, done func()) {
	t.soon(done, func() *sessionClient { return t.clients[client] })
}

// soon evicts some sessions of a client, soon.
func (t sessionRoom) soon(done func(), of func() *sessionClient) {
	if !t.socket.Do(func() {
		defer done()
		t.evict(of())
	}) {
		done()
	}
}

// evict ends a session of a client, nil for none, and more if it still has more than its share.
func (t sessionRoom) evict(c *sessionClient) {
	for n := range maxEvicted {
		if c == nil || n > 0 && !c.quota.Exceeds(quota.Sessions) {
			return
		}
		if s := c.lists.victim(t.core().Now()); s != nil {
			s.end(record.Proxy, record.Timeout, record.OutcomeLimit)
		}
	}
}

// full tells whether one session more of a client, which is counted already, is too many for this socket. The client
// has its share of what the socket may have, as Services have of the Account.
func (t sessionRoom) full(c *sessionClient) bool {
	rest := t.core().opts.UDPSessions - int(t.n.Load())
	return rest < 0 || c.n > quota.ClientShare*(rest+1)
}

// victim is the session to evict for a client's next, nil if there is none: one of its own where it has many of this
// socket, or where own says so, else the least useful of the socket.
func (t sessionRoom) victim(c *sessionClient, own bool) *Session {
	now := t.core().Now()
	if own {
		return c.lists.victim(now)
	}
	if (c.n-1)*quota.HeavyClient >= int(t.n.Load()) {
		if s := c.lists.victim(now); s != nil {
			return s
		}
	}
	return t.lists.victim(now)
}

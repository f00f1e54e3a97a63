package quota

import (
	"net/netip"

	"github.com/portald/portald/proxy/waitqueue"
)

// Client is a client address of one Service, with what it has taken.
type Client struct {
	share
	Waiting waitqueue.Client // its places in the Service's queue

	service *Service
	address *address
	index   int // of address.clients
	users   int // guarded by the shard's mu
}

// Client finds a client of the Service, for a connection of it, until Client.Leave.
func (s *Service) Client(addr netip.Addr) *Client {
	a := s.account
	shard, key := a.shard(addr), clientKey{s, addr}
	shard.mu.Lock()
	defer shard.mu.Unlock()
	c := shard.clients[key]
	if c == nil {
		c = &Client{share: share{of: &s.share, times: ClientShare}, service: s, address: a.enterAddress(shard, addr)}
		c.index, c.address.clients = len(c.address.clients), append(c.address.clients, c)
		shard.clients[key] = c
		s.users.Add(1)
	}
	c.users++
	return c
}

// Leave ends what Service.Client began.
func (c *Client) Leave() {
	a := c.service.account
	shard := a.shard(c.address.addr)
	shard.mu.Lock()
	c.users--
	last := c.users == 0
	if last {
		delete(shard.clients, clientKey{c.service, c.address.addr})
		a.leaveAddress(shard, c)
	}
	shard.mu.Unlock()
	if last {
		c.service.Leave()
	}
}

// Addr is its address.
func (c *Client) Addr() netip.Addr { return c.address.addr }

// TakeConnection takes what a TCP connection needs, or returns an error that wraps ErrDescriptors.
func (c *Client) TakeConnection() error {
	if !c.Take(Descriptors, 2) {
		return c.refusal(ErrDescriptors, Descriptors, 2)
	}
	return nil
}

// GiveConnection gives back what TakeConnection took.
func (c *Client) GiveConnection() { c.Give(Descriptors, 2) }

// TakeSession takes what a UDP session needs, or returns an error that wraps ErrSessions or ErrDescriptors. The socket
// that it is for has so many sessions already.
func (c *Client) TakeSession(has int) error {
	if !c.Take(Sessions, 1) && !c.takeReserved(has) {
		return c.refusal(ErrSessions, Sessions, 1)
	}
	if !c.Take(Descriptors, 1) {
		c.Give(Sessions, 1)
		return c.refusal(ErrDescriptors, Descriptors, 1)
	}
	return nil
}

// TakeSessionAnyway takes it although it may be more than a share.
func (c *Client) TakeSessionAnyway() {
	c.TakeAnyway(Sessions, 1)
	c.TakeAnyway(Descriptors, 1)
}

// GiveSession gives back what TakeSession took.
func (c *Client) GiveSession() {
	c.Give(Descriptors, 1)
	c.Give(Sessions, 1)
}

// Take takes n unless somebody would have more than its share.
func (c *Client) Take(r Resource, n int64) bool {
	a := c.service.account
	used := c.TakeAnyway(r, n)
	if a.most[r] == 0 {
		return true
	}
	if used <= a.most[r] && !a.exceeds(r, c, used) {
		return true
	}
	c.Give(r, n)
	return false
}

// TakeAnyway takes n although it may be more than a share: what is open is not ended for others. It returns how much is
// used then.
func (c *Client) TakeAnyway(r Resource, n int64) (used int64) {
	c.charge(r, n)
	c.address.charge(r, n)
	return c.service.account.used[r].Add(n)
}

// Give gives back n.
func (c *Client) Give(r Resource, n int64) { c.TakeAnyway(r, -n) }

// Exceeds tells whether it has more than its share.
func (c *Client) Exceeds(r Resource) bool {
	a := c.service.account
	return a.exceeds(r, c, a.used[r].Load())
}

// HeavyClient is the part of the sessions of a socket, or of all, from which on a client makes room for its next one by
// its own: one in so many.
const HeavyClient = 16

// IsHeavy tells whether its address has a large part of all sessions.
func (c *Client) IsHeavy() bool {
	return c.address.used[Sessions].Load() >= max(fewSessions, c.service.account.most[Sessions]/HeavyClient)
}

// fewSessions is up to how many sessions a Service or socket has few.
const fewSessions = 8

// takeReserved takes a session from what the shares keep free, and has whoever has the most sessions evict some, so
// that there is always something left. That is for Services with few sessions, and for a socket with few sessions of
// any Service. A client with a large part of all sessions gives up its own, and leaves the last ones to others: what is
// given up comes a moment later.
func (c *Client) takeReserved(has int) bool {
	a := c.service.account
	most := a.most[Sessions]
	if c.IsHeavy() {
		most -= most / HeavyClient
		from := a.withMostSessions(c.address)
		if has >= fewSessions && from.keeps() <= 2*c.used[Sessions].Load() {
			return false
		}
		from.service.evictOf(from)
	} else {
		from := a.services.withMostSessions()
		if from == nil || has >= fewSessions && from.keeps() <= 2*c.service.used[Sessions].Load() {
			return false
		}
		from.evict()
	}
	if c.TakeAnyway(Sessions, 1) > most {
		c.Give(Sessions, 1)
		return false
	}
	return true
}

package splice

import (
	"encoding/binary"
	"net/netip"
	"sync"
)

// holder is a client address of one Service and what it holds.
type holder struct {
	share
	tenant *tenant
	client *client
	index  int // of client.holders
	users  int // guarded by the shard's mu
	waits  int // in the Service's queue, guarded by that one's mu
}

// client is a client address and what it holds of all Services.
type client struct {
	share
	addr    netip.Addr
	holders []*holder // guarded by the shard's mu
	largest largest[holder]
}

// clientShards spread the clients over locks, so that event loops seldom wait for each other.
const clientShards = 64

type clientShard struct {
	mu   sync.Mutex
	held map[clientKey]*holder  // guarded by mu
	all  map[netip.Addr]*client // guarded by mu
}

type clientKey struct {
	tenant *tenant
	addr   netip.Addr
}

func (a *Account) shard(addr netip.Addr) *clientShard {
	b := addr.As16()
	const golden = 0x9e3779b97f4a7c15 // Knuth's multiplicative hash
	return &a.clients[binary.BigEndian.Uint64(b[8:])*golden>>58]
}

// holder finds a client of a Service, for a connection of it, until leaveHolder.
func (a *Account) holder(t *tenant, addr netip.Addr) *holder {
	s, key := a.shard(addr), clientKey{t, addr}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[key]
	if h == nil {
		h = &holder{share: share{of: &t.share, times: clientShare}, tenant: t, client: a.enterClient(s, addr)}
		h.index, h.client.holders = len(h.client.holders), append(h.client.holders, h)
		s.held[key] = h
		t.users.Add(1)
	}
	h.users++
	return h
}

func (a *Account) leaveHolder(h *holder) {
	s := a.shard(h.client.addr)
	s.mu.Lock()
	h.users--
	last := h.users == 0
	if last {
		delete(s.held, clientKey{h.tenant, h.client.addr})
		a.leaveClient(s, h)
	}
	s.mu.Unlock()
	if last {
		a.leaveTenant(h.tenant)
	}
}

func (a *Account) enterClient(s *clientShard, addr netip.Addr) *client {
	c := s.all[addr]
	if c == nil {
		c = &client{share: share{times: networkShare}, addr: addr}
		if addr.Is6() {
			c.of, c.times = a.networks.enter(networkOf(addr)), addressShare
		}
		s.all[addr] = c
	}
	return c
}

// leaveClient removes a holder from its client, and the client with the last of them.
func (a *Account) leaveClient(s *clientShard, h *holder) {
	c := h.client
	last := len(c.holders) - 1
	c.holders[h.index], c.holders[last].index = c.holders[last], h.index
	c.holders[last] = nil
	if c.holders = c.holders[:last]; last > 0 {
		return
	}
	delete(s.all, c.addr)
	if c.of != nil {
		a.networks.leave(networkOf(c.addr))
	}
}

// networks are those of IPv6 clients: one host may have all addresses of a /64.
type networks struct {
	mu   sync.Mutex
	held map[netip.Prefix]*network // guarded by mu
}

type network struct {
	share
	users int // clients
}

func networkOf(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr.WithZone(""), 64).Masked() }

// enter finds a network, for a client of it, until leave.
func (all *networks) enter(p netip.Prefix) *share {
	all.mu.Lock()
	defer all.mu.Unlock()
	n := all.held[p]
	if n == nil {
		n = &network{share: share{times: networkShare}}
		all.held[p] = n
	}
	n.users++
	return &n.share
}

func (all *networks) leave(p netip.Prefix) {
	all.mu.Lock()
	defer all.mu.Unlock()
	n := all.held[p]
	if n.users--; n.users == 0 {
		delete(all.held, p)
	}
}

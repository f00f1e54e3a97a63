package quota

import (
	"encoding/binary"
	"net/netip"
	"sync"
)

// address is a client address, with what it has taken of all Services.
type address struct {
	share
	addr    netip.Addr
	clients []*Client // guarded by the shard's mu
	largest Largest[Client]
}

// addressShards spread the clients over locks, so that event loops seldom wait for each other.
const addressShards = 64

type addressShard struct {
	mu      sync.Mutex
	clients map[clientKey]*Client   // guarded by mu
	all     map[netip.Addr]*address // guarded by mu
}

type clientKey struct {
	service *Service
	addr    netip.Addr
}

func (s *addressShard) begin() {
	s.clients, s.all = map[clientKey]*Client{}, map[netip.Addr]*address{}
}

func (a *Account) shard(addr netip.Addr) *addressShard {
	b := addr.As16()
	const golden = 0x9e3779b97f4a7c15 // Knuth's multiplicative hash
	return &a.addresses[binary.BigEndian.Uint64(b[8:])*golden>>58]
}

func (a *Account) enterAddress(s *addressShard, addr netip.Addr) *address {
	of := s.all[addr]
	if of == nil {
		of = &address{share: share{times: networkShare}, addr: addr}
		if addr.Is6() {
			of.of, of.times = a.networks.enter(networkOf(addr)), addressShare
		}
		s.all[addr] = of
	}
	return of
}

// leaveAddress removes a client from its address, and the address with the last of them.
func (a *Account) leaveAddress(s *addressShard, c *Client) {
	of := c.address
	last := len(of.clients) - 1
	of.clients[c.index], of.clients[last].index = of.clients[last], c.index
	of.clients[last] = nil
	if of.clients = of.clients[:last]; last > 0 {
		return
	}
	delete(s.all, of.addr)
	if of.of != nil {
		a.networks.leave(networkOf(of.addr))
	}
}

// withMostSessions is the Service of which an address has the most sessions.
func (a *Account) withMostSessions(of *address) *Client {
	return of.largest.Find((*Client).keeps, func(yield func(*Client) bool) {
		s := a.shard(of.addr)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range of.clients {
			if !yield(c) {
				return
			}
		}
	})
}

// networks groups IPv6 clients by /64: one host may have all addresses of a /64.
type networks struct {
	mu  sync.Mutex
	all map[netip.Prefix]*network // guarded by mu
}

type network struct {
	share
	users int // addresses
}

func networkOf(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr.WithZone(""), 64).Masked() }

func (all *networks) begin() { all.all = map[netip.Prefix]*network{} }

// enter finds a network, for an address of it, until leave.
func (all *networks) enter(p netip.Prefix) *share {
	all.mu.Lock()
	defer all.mu.Unlock()
	n := all.all[p]
	if n == nil {
		n = &network{share: share{times: networkShare}}
		all.all[p] = n
	}
	n.users++
	return &n.share
}

func (all *networks) leave(p netip.Prefix) {
	all.mu.Lock()
	defer all.mu.Unlock()
	n := all.all[p]
	if n.users--; n.users == 0 {
		delete(all.all, p)
	}
}

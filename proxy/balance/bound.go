package balance

import "net/netip"

// Bound returns the endpoint that a client is bound to, and changes nothing. False: it is bound to none.
func (b *Balancer) Bound(client netip.Addr) (netip.AddrPort, bool) {
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	if m := b.bindings.find(client.Unmap(), b.bindings.now()); m != nil {
		return m.addrPort(), true
	}
	return netip.AddrPort{}, false
}

// mostExpired bounds the bindings that AddBound removes, since Pick waits meanwhile.
const mostExpired = 1024

// AddBound adds how many clients are bound to each endpoint: one too many for a client whose time is up, as long as
// many are.
func (b *Balancer) AddBound(to map[netip.AddrPort]int) {
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	b.bindings.expire(b.bindings.now(), mostExpired)
	if b.bindings.live() == 0 {
		return
	}
	for _, m := range b.rotation.members {
		if m.bound > 0 {
			to[m.addrPort()] += int(m.bound)
		}
	}
}

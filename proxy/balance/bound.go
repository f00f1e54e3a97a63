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

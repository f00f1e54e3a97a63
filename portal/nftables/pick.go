package nftables

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"

	"github.com/portald/portald/portal"
)

// pick sends flows to the endpoint that the pool's algorithm chooses or, with affinity, to that of the client.
func (r rules) pick(id chainID, pool *portal.Pool) []rule {
	var endpoints []netip.AddrPort
	for _, e := range pool.Of(id.role.scope()) {
		endpoints = append(endpoints, e.Addr)
	}
	if len(endpoints) == 0 {
		return []rule{{drop()}}
	}
	protocol := protocolIs(id.owner.Protocol)
	var out []rule
	if pool.Affinity > 0 {
		clients := r.clients(id.owner)
		var first []rule
		for i, endpoint := range endpoints {
			known := r.client(endpoint)
			bind := rule{setUpdate{clients, known, pool.Affinity}, protocol, dnat{endpoint}}
			out = append(out, append(rule{lookup{key: known, in: clients}}, bind...))
			first = append(first, append(r.turn(pool.Algorithm, i, len(endpoints)), bind...))
		}
		out = append(out, first...)
	}
	// With affinity, clients get here when the set is full.
	out = append(out, rule{protocol, r.dnatAny(pool.Algorithm, endpoints)})
	if len(endpoints) > 1 {
		// When a transaction replaces that rule, a packet on its way still has it, but since Linux 6.9 finds nothing
		// in its map, which is gone at once. The packet needs an endpoint, whichever.
		out = append(out, rule{protocol, dnat{endpoints[0]}})
	}
	return out
}

// client is the key of the packet's client and an endpoint. nft has no constants in concatenations, but a random number
// of which there is only one: the endpoint's id.
func (r rules) client(endpoint netip.AddrPort) key {
	return key{r.saddr(), numgen(1, endpointID(endpoint))}
}

// endpointID identifies an endpoint among those of its service port, now and later.
func endpointID(endpoint netip.AddrPort) uint32 {
	hash := sha256.Sum256([]byte(endpoint.String()))
	return binary.BigEndian.Uint32(hash[:]) >> 1 // the kernel adds one
}

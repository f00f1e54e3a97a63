package nftables

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
)

// pick sends flows to the endpoint that the pool's algorithm chooses or, with affinity, to that of the client.
func (r rules) pick(id chainID, pool *portal.Pool) []nft.Rule {
	var endpoints []netip.AddrPort
	for _, e := range pool.Of(id.role.scope()) {
		endpoints = append(endpoints, e.Addr)
	}
	if len(endpoints) == 0 {
		return []nft.Rule{{nft.Drop()}}
	}
	protocol := nft.ProtocolIs(id.owner.Protocol)
	var out []nft.Rule
	if pool.Affinity > 0 {
		clients := r.clients(id.owner)
		var first []nft.Rule
		for i, endpoint := range endpoints {
			known := r.client(endpoint)
			bind := nft.Rule{nft.UpdateSet(clients, known, pool.Affinity), protocol, nft.DNAT(endpoint)}
			out = append(out, append(nft.Rule{nft.HasElement(clients, known)}, bind...))
			first = append(first, append(turn(r.family, pool.Algorithm, i, len(endpoints)), bind...))
		}
		out = append(out, first...)
	}
	// With affinity, clients get here when the set is full.
	out = append(out, nft.Rule{protocol, r.dnatAny(pool.Algorithm, endpoints)})
	if len(endpoints) > 1 {
		// When a transaction replaces that rule, a packet on its way still has it, but since Linux 6.9 finds nothing
		// in its map, which is gone at once. The packet needs an endpoint, whichever.
		out = append(out, nft.Rule{protocol, nft.DNAT(endpoints[0])})
	}
	return out
}

// client is the key of the packet's client and an endpoint. nft has no constants in concatenations, but a random number
// of which there is only one: the endpoint's id.
func (r rules) client(endpoint netip.AddrPort) nft.Key {
	return nft.Key{r.family.SAddr(), nft.Numgen(1, endpointID(endpoint))}
}

// endpointID identifies an endpoint among those of its service port, now and later.
func endpointID(endpoint netip.AddrPort) uint32 {
	hash := sha256.Sum256([]byte(endpoint.String()))
	return binary.BigEndian.Uint32(hash[:]) >> 1 // the kernel adds one
}

// dnatAny translates the destination to one of some endpoints, as an algorithm chooses it.
func (r rules) dnatAny(by service.Algorithm, endpoints []netip.AddrPort) nft.Statement {
	if len(endpoints) == 1 {
		return nft.DNAT(endpoints[0])
	}
	return nft.DNATMap(r.family.LiteralMap(choice(r.family, by, len(endpoints)), endpoints))
}

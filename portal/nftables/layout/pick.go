package layout

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
)

// pick sends flows to the endpoint that the pool's algorithm chooses or, with affinity, to the client's endpoint.
func (r Rules) pick(id ChainID, pool *portal.Pool) []nft.Rule {
	var endpoints []netip.AddrPort
	for _, e := range pool.Of(id.Role.scope()) {
		endpoints = append(endpoints, e.Addr)
	}
	if len(endpoints) == 0 {
		return dropOutside(r.Sets.Ips, r.Sets.NodePorts)
	}
	protocol := nft.ProtocolIs(id.Owner.Protocol)
	var out []nft.Rule
	if pool.Affinity > 0 {
		clients := r.Clients(id.Owner)
		var first []nft.Rule
		for i, endpoint := range endpoints {
			known := r.Client(endpoint)
			bind := nft.Rule{nft.UpdateSet(clients, known, pool.Affinity), protocol, nft.DNAT(endpoint)}
			out = append(out, append(nft.Rule{nft.HasElement(clients, known)}, bind...))
			first = append(first, append(Turn(r.Family, pool.Algorithm, i, len(endpoints)), bind...))
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

// Client is the key of the packet's client and an endpoint. nft has no constants in concatenations, but a random number
// of which there is only one: the endpoint's id.
func (r Rules) Client(endpoint netip.AddrPort) nft.Key {
	return nft.Key{r.Family.SAddr(), nft.Numgen(1, EndpointID(endpoint))}
}

// EndpointID identifies an endpoint of a service port, now and later.
func EndpointID(endpoint netip.AddrPort) uint32 {
	hash := sha256.Sum256([]byte(endpoint.String()))
	return binary.BigEndian.Uint32(hash[:]) >> 1 // the kernel adds one
}

// dnatAny translates the destination to one of some endpoints, as an algorithm chooses it.
func (r Rules) dnatAny(by service.Algorithm, endpoints []netip.AddrPort) nft.Statement {
	if len(endpoints) == 1 {
		return nft.DNAT(endpoints[0])
	}
	return nft.DNATMap(r.Family.LiteralMap(choice(r.Family, by, len(endpoints)), endpoints))
}

package layout

import (
	"fmt"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nft"
)

// IsPlain tells whether a portal that spreads needs no chain of its own: all clients get a random one of the same
// endpoints. Plain portals are elements of maps, by class.
func (r Rules) IsPlain(p portal.Portal, to portal.Spread) bool {
	f := r.forwarding(p.Kind, to)
	return to.Pool.Affinity == 0 && len(scopes(f)) == 1 && !f.Restricted && isRandom(to.Pool.Algorithm)
}

// plainChain marks flows that are to be masqueraded, and sends them to endpoints. It jumps to the classes twice: the
// first time may miss a portal that moves to another class meanwhile. A packet that comes back belongs to a portal that
// was deleted meanwhile, and loses the mark.
func (r Rules) plainChain(s Scope) []nft.Rule {
	var out []nft.Rule
	if s.External == nil {
		out = append(out, nft.Rule{nft.Mark(r.Masquerade.Mark)})
	} else {
		out = append(out, nft.Rule{nft.ElementOf(s.External), nft.Mark(r.Masquerade.Mark)}, nft.Rule{nft.Jump(markClients)})
	}
	toClasses := nft.Rule{nft.Jump(s.classes())}
	return append(out, toClasses, toClasses, nft.Rule{nft.Unmark(r.Masquerade.Mark)})
}

// classes is the name of the chain that jumps to the classes.
func (s Scope) classes() string { return EndpointsPrefix + "-" + s.Name }

// Class is the plain portals of a scope with the same number of endpoints. They share a map and a chain.
type Class struct {
	Scope  string
	Number int
}

func (c Class) Name() string { return fmt.Sprintf("%s-%s-%d", EndpointsPrefix, c.Scope, c.Number) }

// NewSet is the map of the class: an endpoint for each portal and random number.
func (c Class) NewSet(f nft.Family, portals nft.Key) *nft.Set {
	k := append(slices.Clone(portals), nft.Numgen(uint32(c.Number), 0))
	return &nft.Set{Name: c.Name(), Key: k, Data: nft.Key{f.DAddr(), nft.DPort()}}
}

// Chain sends flows to the endpoints of a map. Each class has a chain of its own because for a new rule the kernel goes
// through all elements of its map: the map of a new class is still empty, and the rules of others do not change.
func (c Class) Chain(endpoints *nft.Set) nft.Chain {
	protocols := nft.ProtocolIs(inet.TCP, inet.UDP, inet.SCTP)
	return nft.Chain{Name: c.Name(), Rules: []nft.Rule{{protocols, nft.DNATMap(endpoints)}}}
}

// ClassesChain jumps to the classes, one after the other.
func ClassesChain(s Scope, all []Class) nft.Chain {
	c := nft.Chain{Name: s.classes()}
	for _, class := range all {
		c.Rules = append(c.Rules, nft.Rule{nft.Jump(class.Name())})
	}
	return c
}

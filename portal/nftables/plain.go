package nftables

import (
	"fmt"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nft"
)

// isPlain tells whether a portal that spreads needs no chain of its own: all clients get a random one of the same
// endpoints. Plain portals are elements of maps, by class.
func (r rules) isPlain(p portal.Portal, to portal.Spread) bool {
	f := r.forwarding(p.Kind, to)
	return to.Pool.Affinity == 0 && len(scopes(f)) == 1 && !f.Restricted && isRandom(to.Pool.Algorithm)
}

// plainChain marks flows that are to be masqueraded, and sends them to endpoints. It jumps to the classes twice: the
// first time may miss a portal that moves to another class meanwhile. A packet that comes back belongs to a portal that
// was deleted meanwhile, and loses the mark.
func (r rules) plainChain(s scope) []nft.Rule {
	var out []nft.Rule
	if s.external == nil {
		out = append(out, nft.Rule{nft.Mark(r.masquerade.Mark)})
	} else {
		out = append(out, nft.Rule{nft.ElementOf(s.external), nft.Mark(r.masquerade.Mark)}, nft.Rule{nft.Jump(markClients)})
	}
	toClasses := nft.Rule{nft.Jump(s.classes())}
	return append(out, toClasses, toClasses, nft.Rule{nft.Unmark(r.masquerade.Mark)})
}

// classes is the name of the chain that jumps to the classes.
func (s scope) classes() string { return endpointsPrefix + "-" + s.name }

// class is the plain portals of a scope with the same number of endpoints. They share a map and a chain.
type class struct {
	scope  string
	number int
}

func (c class) name() string { return fmt.Sprintf("%s-%s-%d", endpointsPrefix, c.scope, c.number) }

// newSet is the map of the class: an endpoint for each portal and random number.
func (c class) newSet(f nft.Family, portals nft.Key) *nft.Set {
	k := append(slices.Clone(portals), nft.Numgen(uint32(c.number), 0))
	return &nft.Set{Name: c.name(), Key: k, Data: nft.Key{f.DAddr(), nft.DPort()}}
}

// chain sends flows to the endpoints of a map. Each class has a chain of its own because for a new rule the kernel goes
// through all elements of its map: that of a new class is still empty, and the rules of others do not change.
func (c class) chain(endpoints *nft.Set) nft.Chain {
	protocols := nft.ProtocolIs(inet.TCP, inet.UDP, inet.SCTP)
	return nft.Chain{Name: c.name(), Rules: []nft.Rule{{protocols, nft.DNATMap(endpoints)}}}
}

// classesChain jumps to the classes, one after the other.
func classesChain(s scope, all []class) nft.Chain {
	c := nft.Chain{Name: s.classes()}
	for _, class := range all {
		c.Rules = append(c.Rules, nft.Rule{nft.Jump(class.name())})
	}
	return c
}

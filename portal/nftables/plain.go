package nftables

import (
	"fmt"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
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
func (r rules) plainChain(s scope) []rule {
	var out []rule
	if s.external == nil {
		out = append(out, rule{mark(r.masquerade.Mark)})
	} else {
		out = append(out, rule{elementOf(s.external), mark(r.masquerade.Mark)}, rule{jump(markClients)})
	}
	return append(out, rule{jump(s.classes())}, rule{jump(s.classes())}, rule{unmark(r.masquerade.Mark)})
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
func (c class) newSet(f family, portals key) *set {
	k := append(slices.Clone(portals), numgen(uint32(c.number), 0))
	return &set{name: c.name(), key: k, data: key{f.daddr(), dport()}}
}

// chain sends flows to the endpoints of a map. Each class has a chain of its own because for a new rule the kernel goes
// through all elements of its map: that of a new class is still empty, and the rules of others do not change.
func (c class) chain(endpoints *set) chain {
	protocols := protocolIs(inet.TCP, inet.UDP, inet.SCTP)
	return chain{name: c.name(), rules: []rule{{protocols, dnatMap{mapping{endpoints}}}}}
}

// classesChain jumps to the classes, one after the other.
func classesChain(s scope, all []class) chain {
	c := chain{name: s.classes()}
	for _, class := range all {
		c.rules = append(c.rules, rule{jump(class.name())})
	}
	return c
}

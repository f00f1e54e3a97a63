package nftables

import (
	"maps"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/layout"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

// state has the sets, elements and chains that the table of one family should have.
type state struct {
	rules     layout.Rules
	portals   map[service.Frontend]portal.Portal
	pools     map[service.PortName]*portal.Pool // of those that spread by chains of their own
	shared    writer.Refcount[any]              // by portals: entries, chainIDs, clientsIDs
	classes   writer.Refcount[layout.Class]
	endpoints map[layout.Class]*nft.Set // of the classes in use
	sizes     map[*nft.Set]int          // how many elements sets have
}

func newState(r layout.Rules) *state {
	return &state{
		rules:     r,
		portals:   map[service.Frontend]portal.Portal{},
		pools:     map[service.PortName]*portal.Pool{},
		shared:    writer.NewRefcount[any](),
		classes:   writer.NewRefcount[layout.Class](),
		endpoints: map[layout.Class]*nft.Set{},
		sizes:     map[*nft.Set]int{},
	}
}

// build makes a state of portals and open proxy ports, and the changeset that makes it from no table.
func build(r layout.Rules, portals []portal.Portal, open map[portal.ProxyPort]bool) (*state, *changeset) {
	s := newState(r)
	s.guard(open)
	var changes []portal.Change
	for i, p := range portals {
		if r.Family.Owns(p.Frontend.Addr.Addr()) {
			changes = append(changes, portal.Change{Frontend: p.Frontend, Portal: &portals[i]})
		}
	}
	c := s.change(changes)
	c.createSets = append(s.rules.Sets.All(), c.createSets...)
	fixed := s.rules.Fixed()
	for _, scope := range []layout.Scope{s.rules.Sets.Ips, s.rules.Sets.NodePorts} {
		if len(s.classesOf(scope, nil)) == 0 {
			fixed = append(fixed, layout.ClassesChain(scope, nil))
		}
	}
	c.writeChains = append(fixed, c.writeChains...)
	return s, c
}

// change applies changes to the state, and returns the changeset for the host.
func (s *state) change(changes []portal.Change) *changeset {
	before, after := map[nft.Entry]nft.Value{}, map[nft.Entry]nft.Value{}
	replaced := map[service.PortName]*portal.Pool{}
	for _, c := range changes {
		if old, ok := s.portals[c.Frontend]; ok {
			maps.Copy(before, s.entries(old))
			s.count(-1, old)
			delete(s.portals, c.Frontend)
		}
	}
	for _, c := range changes {
		if c.Portal == nil {
			continue
		}
		p := *c.Portal
		maps.Copy(after, s.entries(p))
		s.count(1, p)
		s.portals[c.Frontend] = p
		if to, ok := p.Target.(portal.Spread); ok && !s.rules.IsPlain(p, to) && s.pools[p.Owner] != to.Pool {
			replaced[p.Owner], s.pools[p.Owner] = s.pools[p.Owner], to.Pool
		}
	}
	return s.changeset(before, after, replaced)
}

// count adds n references of a portal to what it shares with others.
func (s *state) count(n int, p portal.Portal) {
	if p.Kind == service.ClusterIP {
		s.shared.Add(n, nft.Entry{Set: s.rules.Sets.ClusterIPs, Element: nft.Element{Destination: p.Frontend.Addr.Addr()}})
	}
	to, ok := p.Target.(portal.Spread)
	if !ok {
		return
	}
	if !s.rules.IsPlain(p, to) {
		for _, id := range s.rules.ChainsOf(p, to) {
			s.shared.Add(n, id)
		}
		if to.Pool.Affinity > 0 {
			s.shared.Add(n, layout.ClientsID{Owner: p.Owner})
		}
	} else if some := to.Pool.Of(to.Scope); len(some) > 0 {
		s.classes.Add(n, layout.Class{Scope: s.scopeOf(p).Name, Number: len(some)})
	}
	for _, endpoint := range slices.Concat(to.Pool.Cluster, to.Pool.Node) {
		if addr := endpoint.Addr.Addr(); endpoint.MayHairpin {
			s.shared.Add(n, nft.Entry{Set: s.rules.Sets.Hairpins, Element: nft.Element{Source: addr, Destination: addr}})
		}
	}
}

// guard takes note of proxy ports that were opened or closed. Their elements are part of the next changeset.
func (s *state) guard(ports map[portal.ProxyPort]bool) {
	for p, open := range ports {
		if p.Family == s.rules.Family.IP {
			e := nft.Entry{Set: s.rules.Sets.ProxyPorts, Element: nft.Element{Protocol: p.Protocol, Port: p.Port}}
			if guarded := s.shared.Counts()[e] > 0; guarded != open {
				n := 1
				if !open {
					n = -1
				}
				s.shared.Add(n, e)
			}
		}
	}
}

// classesOf are the classes of a scope in use, and more; the smallest first, since most service ports have few
// endpoints.
func (s *state) classesOf(scope layout.Scope, more []layout.Class) []layout.Class {
	var out []layout.Class
	for _, c := range slices.AppendSeq(slices.Clone(more), maps.Keys(s.classes.Counts())) {
		if c.Scope == scope.Name {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b layout.Class) int { return a.Number - b.Number })
	return slices.Compact(out)
}

// retires tells whether packets look up a set in a later hook than the element that led them there.
func (s *state) retires(set *nft.Set) bool { return set.Name == s.rules.Sets.Hairpins.Name }

// resize counts the elements of sets after a changeset.
func (s *state) resize(c *changeset) {
	for _, e := range c.add {
		s.sizes[e.Set]++
	}
	for _, e := range slices.Concat(c.remove, c.retire) {
		if s.sizes[e.Set]--; s.sizes[e.Set] == 0 {
			delete(s.sizes, e.Set)
		}
	}
}

// portalSets are the sets that portals fill: all but the sets of clients.
func (s *state) portalSets() []*nft.Set {
	return slices.AppendSeq(s.rules.Sets.All(), maps.Values(s.endpoints))
}

// elements are all elements of portalSets.
func (s *state) elements() map[nft.Entry]nft.Value {
	out := map[nft.Entry]nft.Value{}
	for _, p := range s.portals {
		maps.Copy(out, s.entries(p))
	}
	for id := range s.shared.Counts() {
		if e, ok := id.(nft.Entry); ok {
			out[e] = nft.Value{}
		}
	}
	return out
}

package nftables

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// state is what the table of one family should hold.
type state struct {
	rules
	held  map[service.Frontend]portal.Portal
	pools map[service.PortName]*portal.Pool // of those that spread by chains of their own
	needs tally[any]                        // what portals share: entries, chainIDs, clientsIDs
	used  tally[class]
	maps  map[class]*set // of the classes in use
	sizes map[*set]int   // how many elements they have
}

func newState(r rules) *state {
	return &state{rules: r, held: map[service.Frontend]portal.Portal{}, pools: map[service.PortName]*portal.Pool{},
		needs: newTally[any](), used: newTally[class](), maps: map[class]*set{}, sizes: map[*set]int{}}
}

// entries are the elements of maps and sets that a portal has for itself.
func (s *state) entries(p portal.Portal) map[entry]value {
	scope := s.scopeOf(p)
	e := element{protocol: p.Frontend.Protocol, port: p.Frontend.Addr.Port()}
	if p.Kind != service.NodePort {
		e.destination = p.Frontend.Addr.Addr()
	}
	v := value{comment: comment(p)}
	switch target := p.Target.(type) {
	case portal.Redirect:
		v.endpoint = netip.AddrPortFrom(netip.Addr{}, target.Port)
		if !target.Inside {
			return map[entry]value{{scope.redirects, e}: v}
		}
		inside := value{verdict: jump(scope.insiders.name), comment: v.comment}
		return map[entry]value{{scope.chains, e}: inside, {scope.insiders, e}: v}
	case portal.Reject:
		return map[entry]value{{scope.refused, e}: v}
	case portal.Drop:
		return map[entry]value{{scope.dropped, e}: v}
	case portal.Spread:
		return s.spreadEntries(scope, e, v, p, target)
	}
	return nil // check lets no other through
}

func (s *state) spreadEntries(scope scope, e element, v value, p portal.Portal, to portal.Spread) map[entry]value {
	if !s.isPlain(p, to) {
		v.verdict = goTo(s.chainsOf(p, to)[0].name())
		return map[entry]value{{scope.chains, e}: v}
	}
	some := to.Pool.Of(to.Scope)
	if len(some) == 0 {
		return map[entry]value{{choose(to.Scope == service.NodeScope, scope.dropped, scope.refused), e}: v}
	}
	out := map[entry]value{{scope.plain, e}: v}
	if p.Kind != service.ClusterIP && scope.external != nil {
		out[entry{scope.external, e}] = value{}
	}
	endpoints := s.endpoints(scope, len(some))
	for i, endpoint := range some {
		e.slot = uint32(i)
		out[entry{endpoints, e}] = value{endpoint: endpoint.Addr}
	}
	return out
}

// endpoints is the map of a class, which is there as long as the class.
func (s *state) endpoints(of scope, number int) *set {
	c := class{of.name, number}
	if s.maps[c] == nil {
		k := append(slices.Clone(of.plain.key), bySlot)
		s.maps[c] = &set{name: c.name(), key: k, slots: number, data: endpoints}
	}
	return s.maps[c]
}

func (s *state) scopeOf(p portal.Portal) scope {
	return choose(p.Kind == service.NodePort, s.nodePorts, s.ips)
}

// count enters what a portal needs and others may need too, n being 1 or -1.
func (s *state) count(n int, p portal.Portal) {
	if p.Kind == service.ClusterIP {
		s.needs.add(n, entry{s.clusterIPs, element{destination: p.Frontend.Addr.Addr()}})
	}
	to, ok := p.Target.(portal.Spread)
	if !ok {
		return
	}
	if !s.isPlain(p, to) {
		for _, id := range s.chainsOf(p, to) {
			s.needs.add(n, id)
		}
		if to.Pool.Affinity > 0 {
			s.needs.add(n, clientsID{p.Owner})
		}
	} else if some := to.Pool.Of(to.Scope); len(some) > 0 {
		s.used.add(n, class{s.scopeOf(p).name, len(some)})
	}
	for _, endpoint := range slices.Concat(to.Pool.Cluster, to.Pool.Node) {
		if addr := endpoint.Addr.Addr(); endpoint.MayHairpin {
			s.needs.add(n, entry{s.hairpins, element{source: addr, destination: addr}})
		}
	}
}

// change makes changes to what is held, and tells what that means for the host.
func (s *state) change(changes []portal.Change) *edit {
	was, is := map[entry]value{}, map[entry]value{}
	turned := map[service.PortName]*portal.Pool{} // owners whose pool is another, with the one before
	for _, c := range changes {
		if old, ok := s.held[c.Frontend]; ok {
			maps.Copy(was, s.entries(old))
			s.count(-1, old)
			delete(s.held, c.Frontend)
		}
	}
	for _, c := range changes {
		if c.Portal == nil {
			continue
		}
		p := *c.Portal
		maps.Copy(is, s.entries(p))
		s.count(1, p)
		s.held[c.Frontend] = p
		if to, ok := p.Target.(portal.Spread); ok && !s.isPlain(p, to) && s.pools[p.Owner] != to.Pool {
			turned[p.Owner], s.pools[p.Owner] = s.pools[p.Owner], to.Pool
		}
	}
	return s.edit(was, is, turned)
}

// guard takes in which of the family's proxy ports are open; change tells what that means.
func (s *state) guard(ports map[portal.ProxyPort]bool) {
	for p, open := range ports {
		if p.Family == s.ip {
			s.needs.add(choose(open, 1, -1), entry{s.proxyPorts, element{protocol: p.Protocol, port: p.Port}})
		}
	}
}

// classes are those in use of a scope, and more; the smallest first, since most service ports have few endpoints.
func (s *state) classes(of scope, more []class) []class {
	var out []class
	for _, c := range slices.AppendSeq(slices.Clone(more), maps.Keys(s.used.count)) {
		if c.scope == of.name {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b class) int { return a.number - b.number })
	return slices.Compact(out)
}

// filled are the sets that portals fill: all but those that packets do.
func (s *state) filled() []*set {
	return slices.AppendSeq(s.all(), maps.Values(s.maps))
}

// elements are all that the sets should have; what packets enter is not among them.
func (s *state) elements() map[entry]value {
	out := map[entry]value{}
	for _, p := range s.held {
		maps.Copy(out, s.entries(p))
	}
	for need := range s.needs.count {
		if e, ok := need.(entry); ok {
			out[e] = value{}
		}
	}
	return out
}

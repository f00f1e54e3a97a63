package nftables

import (
	"net/netip"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// entries are the elements that a portal does not share with others.
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
		inside := value{verdict: jump(scope.internal.name), comment: v.comment}
		return map[entry]value{{scope.chains, e}: inside, {scope.internal, e}: v}
	case portal.Reject:
		return map[entry]value{{scope.refused, e}: v}
	case portal.Drop:
		return map[entry]value{{scope.dropped, e}: v}
	case portal.Spread:
		return s.spreadEntries(scope, e, v, p, target)
	}
	return nil // Limits refuses others
}

func (s *state) spreadEntries(scope scope, e element, v value, p portal.Portal, to portal.Spread) map[entry]value {
	if !s.isPlain(p, to) {
		v.verdict = goTo(s.chainsOf(p, to)[0].name())
		out := map[entry]value{{scope.chains, e}: v}
		if to.Restricted(p.Kind) && to.Pool.AdmitsNode {
			e.source = e.destination
			out[entry{s.fromNode, e}] = value{}
		}
		return out
	}
	some := to.Pool.Of(to.Scope)
	if len(some) == 0 {
		return map[entry]value{{choose(to.Scope == service.NodeScope, scope.dropped, scope.refused), e}: v}
	}
	out := map[entry]value{{scope.plain, e}: v}
	if p.Kind != service.ClusterIP && scope.external != nil {
		out[entry{scope.external, e}] = value{}
	}
	endpoints := s.endpointsOf(scope, len(some))
	for i, endpoint := range some {
		e.slot = uint32(i)
		out[entry{endpoints, e}] = value{endpoint: endpoint.Addr}
	}
	return out
}

// endpointsOf is the map of a class, which exists as long as the class is in use.
func (s *state) endpointsOf(scope scope, number int) *set {
	c := class{scope.name, number}
	if s.endpoints[c] == nil {
		s.endpoints[c] = c.newSet(s.family, scope.plain.key)
	}
	return s.endpoints[c]
}

func (s *state) scopeOf(p portal.Portal) scope {
	return choose(p.Kind == service.NodePort, s.nodePorts, s.ips)
}

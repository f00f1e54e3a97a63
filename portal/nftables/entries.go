package nftables

import (
	"net/netip"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
)

// entries are the elements that a portal does not share with others.
func (s *state) entries(p portal.Portal) map[nft.Entry]nft.Value {
	scope := s.scopeOf(p)
	e := nft.Element{Protocol: p.Frontend.Protocol, Port: p.Frontend.Addr.Port()}
	if p.Kind != service.NodePort {
		e.Destination = p.Frontend.Addr.Addr()
	}
	v := nft.Value{Comment: comment(p)}
	switch target := p.Target.(type) {
	case portal.Redirect:
		v.Endpoint = netip.AddrPortFrom(netip.Addr{}, target.Port)
		if !target.Inside {
			return map[nft.Entry]nft.Value{{Set: scope.redirects, Element: e}: v}
		}
		inside := nft.Value{Verdict: nft.Jump(scope.internal.Name), Comment: v.Comment}
		return map[nft.Entry]nft.Value{{Set: scope.chains, Element: e}: inside, {Set: scope.internal, Element: e}: v}
	case portal.Reject:
		return map[nft.Entry]nft.Value{{Set: scope.refused, Element: e}: v}
	case portal.Drop:
		return map[nft.Entry]nft.Value{{Set: scope.dropped, Element: e}: v}
	case portal.Spread:
		return s.spreadEntries(scope, e, v, p, target)
	}
	return nil // Limits refuses others
}

func (s *state) spreadEntries(
	scope scope, e nft.Element, v nft.Value, p portal.Portal, to portal.Spread,
) map[nft.Entry]nft.Value {
	if !s.rules.isPlain(p, to) {
		v.Verdict = nft.Goto(s.rules.chainsOf(p, to)[0].name())
		out := map[nft.Entry]nft.Value{{Set: scope.chains, Element: e}: v}
		if to.Restricted(p.Kind) && to.Pool.AdmitsNode {
			e.Source = e.Destination
			out[nft.Entry{Set: s.rules.sets.fromNode, Element: e}] = nft.Value{}
		}
		return out
	}
	some := to.Pool.Of(to.Scope)
	if len(some) == 0 {
		none := scope.refused
		if to.Scope == service.NodeScope {
			none = scope.dropped
		}
		return map[nft.Entry]nft.Value{{Set: none, Element: e}: v}
	}
	out := map[nft.Entry]nft.Value{{Set: scope.plain, Element: e}: v}
	if p.Kind != service.ClusterIP && scope.external != nil {
		out[nft.Entry{Set: scope.external, Element: e}] = nft.Value{}
	}
	endpoints := s.endpointsOf(scope, len(some))
	for i, endpoint := range some {
		e.Slot = uint32(i)
		out[nft.Entry{Set: endpoints, Element: e}] = nft.Value{Endpoint: endpoint.Addr}
	}
	return out
}

// endpointsOf is the map of a class, which exists as long as the class is in use.
func (s *state) endpointsOf(scope scope, number int) *nft.Set {
	c := class{scope.name, number}
	if s.endpoints[c] == nil {
		s.endpoints[c] = c.newSet(s.rules.family, scope.plain.Key)
	}
	return s.endpoints[c]
}

func (s *state) scopeOf(p portal.Portal) scope {
	if p.Kind == service.NodePort {
		return s.rules.sets.nodePorts
	}
	return s.rules.sets.ips
}

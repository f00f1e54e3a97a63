package nftables

import (
	"net/netip"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/layout"
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
	v := nft.Value{Comment: layout.Comment(p)}
	switch target := p.Target.(type) {
	case portal.Redirect:
		v.Endpoint = netip.AddrPortFrom(netip.Addr{}, target.Port)
		if !target.Inside {
			return map[nft.Entry]nft.Value{{Set: scope.Redirects, Element: e}: v}
		}
		inside := nft.Value{Verdict: nft.Jump(scope.Internal.Name), Comment: v.Comment}
		return map[nft.Entry]nft.Value{
			{Set: scope.Chains, Element: e}: inside, {Set: scope.Internal, Element: e}: v, {Set: scope.Outside, Element: e}: {},
		}
	case portal.Reject:
		return map[nft.Entry]nft.Value{{Set: scope.Refused, Element: e}: v}
	case portal.Drop:
		return map[nft.Entry]nft.Value{{Set: scope.Dropped, Element: e}: v}
	case portal.Spread:
		return s.spreadEntries(scope, e, v, p, target)
	}
	return nil // Limits refuses others
}

func (s *state) spreadEntries(
	scope layout.Scope, e nft.Element, v nft.Value, p portal.Portal, to portal.Spread,
) map[nft.Entry]nft.Value {
	if !s.rules.IsPlain(p, to) {
		v.Verdict = nft.Goto(s.rules.ChainsOf(p, to)[0].Name())
		out := map[nft.Entry]nft.Value{{Set: scope.Chains, Element: e}: v}
		if p.Refuses() {
			out[nft.Entry{Set: scope.Outside, Element: e}] = nft.Value{}
		}
		if to.Restricted(p.Kind) && to.Pool.AdmitsNode {
			e.Source = e.Destination
			out[nft.Entry{Set: s.rules.Sets.FromNode, Element: e}] = nft.Value{}
		}
		return out
	}
	some := to.Pool.Of(to.Scope)
	if len(some) == 0 {
		none := scope.Refused
		if to.Scope == service.NodeScope {
			none = scope.Dropped
		}
		return map[nft.Entry]nft.Value{{Set: none, Element: e}: v}
	}
	out := map[nft.Entry]nft.Value{{Set: scope.Plain, Element: e}: v}
	if p.Kind != service.ClusterIP && scope.External != nil {
		out[nft.Entry{Set: scope.External, Element: e}] = nft.Value{}
	}
	endpoints := s.endpointsOf(scope, len(some))
	for i, endpoint := range some {
		e.Slot = uint32(i)
		out[nft.Entry{Set: endpoints, Element: e}] = nft.Value{Endpoint: endpoint.Addr}
	}
	return out
}

// endpointsOf is the map of a class, which exists as long as the class is in use.
func (s *state) endpointsOf(scope layout.Scope, number int) *nft.Set {
	c := layout.Class{Scope: scope.Name, Number: number}
	if s.endpoints[c] == nil {
		s.endpoints[c] = c.NewSet(s.rules.Family, scope.Plain.Key)
	}
	return s.endpoints[c]
}

func (s *state) scopeOf(p portal.Portal) layout.Scope {
	if p.Kind == service.NodePort {
		return s.rules.Sets.NodePorts
	}
	return s.rules.Sets.Ips
}

package portaltest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Portals returns n portals with different frontends: of both families and protocols, all kinds, and all targets
// but Spread.
func Portals(random *rand.Rand, n int) []portal.Portal {
	state := State{}
	for len(state) < n {
		p := one(random, 1<<16)
		state[p.Frontend] = p
	}
	return state.Portals()
}

// State has the portals that should be on a host.
type State map[service.Frontend]portal.Portal

// Portals returns the state, ordered by frontend.
func (s State) Portals() []portal.Portal {
	return slices.SortedFunc(maps.Values(s), func(a, b portal.Portal) int { return a.Frontend.Compare(b.Frontend) })
}

// Change makes up to n changes to the state and returns them. The frontends are few, so that they come, go and come
// back, and share leaves of whatever tree the writer keeps.
func (s State) Change(random *rand.Rand, n int) []portal.Change {
	touched := map[service.Frontend]bool{}
	for range n {
		p := one(random, 8)
		f := p.Frontend
		touched[f] = true
		if _, there := s[f]; there && random.IntN(2) == 0 {
			delete(s, f)
			continue
		}
		s[f] = p
	}
	return s.changes(touched)
}

// changes are the newest states of frontends, ordered by frontend.
func (s State) changes(touched map[service.Frontend]bool) []portal.Change {
	var out []portal.Change
	for f := range touched {
		c := portal.Change{Frontend: f}
		if p, there := s[f]; there {
			c.Portal = &p
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b portal.Change) int { return a.Frontend.Compare(b.Frontend) })
	return out
}

// ProxyPorts are some open ones, of both families and protocols: neighbours, and with gaps.
func ProxyPorts(random *rand.Rand) map[portal.ProxyPort]bool {
	open := map[portal.ProxyPort]bool{}
	for _, family := range inet.Families() {
		for _, protocol := range []inet.Protocol{inet.TCP, inet.UDP} {
			for port := range uint16(400) {
				if port < 3 || random.IntN(40) == 0 {
					open[portal.ProxyPort{Family: family, Protocol: protocol, Port: FirstPort + port}] = true
				}
			}
		}
	}
	return open
}

// Guarded is ProxyPort, open or not, in both families and protocols.
func Guarded(open bool) map[portal.ProxyPort]bool {
	out := map[portal.ProxyPort]bool{}
	for _, family := range inet.Families() {
		for _, proto := range []inet.Protocol{inet.TCP, inet.UDP} {
			out[portal.ProxyPort{Family: family, Protocol: proto, Port: ProxyPort}] = open
		}
	}
	return out
}

// ChangePorts opens and closes up to n proxy ports and returns which.
func ChangePorts(random *rand.Rand, open map[portal.ProxyPort]bool, n int) map[portal.ProxyPort]bool {
	changed := map[portal.ProxyPort]bool{}
	for range n {
		p := portal.ProxyPort{Family: inet.Family(random.IntN(2)), Protocol: inet.TCP}
		p.Port = FirstPort + uint16(random.IntN(20)*40)
		if random.IntN(2) == 0 {
			p.Protocol = inet.UDP
		}
		if changed[p] = !open[p]; open[p] {
			delete(open, p)
		} else {
			open[p] = true
		}
	}
	return changed
}

// one returns any portal that does not spread; its address is one of about spread in each family.
func one(random *rand.Rand, spread int) portal.Portal {
	p := portal.Portal{Kind: service.Kind(random.IntN(4))}
	proto := []inet.Protocol{inet.TCP, inet.UDP, inet.SCTP}[random.IntN(3)]
	p.Frontend.Protocol = proto
	all := targets(p)
	p.Target = all[random.IntN(len(all))]
	if redirect := (portal.Redirect{Port: FirstPort + uint16(random.IntN(100))}); proto != inet.SCTP &&
		random.IntN(2) == 0 {
		p.Target = redirect
	}
	addr, port := address(random, spread), uint16(80+random.IntN(3))
	if p.Kind == service.NodePort {
		port = 30000 + uint16(random.IntN(2000))
		if addr.Is4() {
			addr = netip.IPv4Unspecified()
		} else {
			addr = netip.IPv6Unspecified()
		}
	}
	p.Frontend = service.Frontend{Addr: netip.AddrPortFrom(addr, port), Protocol: proto}
	owner := fmt.Sprintf("s%d", random.IntN(spread))
	p.Owner = service.PortName{Namespace: "shop", Name: owner, Port: "web", Protocol: proto}
	return p
}

// targets are one of each kind, with the port of p's own if that has one.
func targets(p portal.Portal) []portal.Target {
	port := uint16(FirstPort)
	if redirect, ok := p.Target.(portal.Redirect); ok {
		port = redirect.Port
	}
	if p.Frontend.Protocol == inet.SCTP { // no listener carries it
		return []portal.Target{portal.Drop{}, portal.Reject{}}
	}
	return []portal.Target{
		portal.Redirect{Port: port}, portal.Redirect{Port: port, Inside: true}, portal.Drop{}, portal.Reject{},
	}
}

func address(random *rand.Rand, spread int) netip.Addr {
	n := random.IntN(spread) * 33 // some share a group, some a leaf
	if random.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte{10, 96 + byte(n>>16&7), byte(n >> 8), byte(n)})
	}
	return netip.AddrFrom16([16]byte{0: 0xfd, 12: byte(random.IntN(2)), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)})
}

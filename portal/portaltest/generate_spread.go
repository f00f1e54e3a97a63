package portaltest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// SpreadPortals is Portals with as many that spread; owners have several portals each.
func SpreadPortals(random *rand.Rand, n int) []portal.Portal {
	state := State{}
	for len(state) < n {
		p := one(random, 1<<16)
		p.Owner.Name = fmt.Sprintf("s%d", random.IntN(1+n/4))
		state.enter(random, p)
	}
	return state.Portals()
}

// Anchors are portals that spread, one of each family, where no generated one is. A writer may keep what the first
// portal that spreads brings beyond the last; with them there is no last.
func Anchors() []portal.Portal {
	var out []portal.Portal
	for _, at := range [][2]string{{"10.95.0.1:80", "10.244.9.1:80"}, {"[fd00:95::1]:80", "[fd00:244:9::1]:80"}} {
		out = append(out, portal.Portal{
			Frontend: service.Frontend{Addr: netip.MustParseAddrPort(at[0]), Protocol: inet.TCP}, Kind: service.ClusterIP,
			Owner:  service.PortName{Namespace: "shop", Name: "anchor", Port: "web", Protocol: inet.TCP},
			Target: portal.Spread{Pool: &portal.Pool{Cluster: []portal.Endpoint{{Addr: netip.MustParseAddrPort(at[1])}}}},
		})
	}
	return out
}

// ChangeSpread is Change for states with portals that spread. An owner's pool changes too, and with it all of its
// portals of that family that spread.
func (s State) ChangeSpread(random *rand.Rand, n int) []portal.Change {
	touched := map[service.Frontend]bool{}
	for range n {
		p := one(random, 8)
		if random.IntN(4) == 0 {
			for _, f := range s.repool(random, p.Owner, familyOf(p)) {
				touched[f] = true
			}
			continue
		}
		touched[p.Frontend] = true
		if _, there := s[p.Frontend]; there && random.IntN(2) == 0 {
			delete(s, p.Frontend)
		} else {
			s.enter(random, p)
		}
	}
	return s.changes(touched)
}

// enter has the state hold p, or one in its place that spreads.
func (s State) enter(random *rand.Rand, p portal.Portal) {
	if random.IntN(2) == 0 {
		p.Target = s.offered(random, p.Owner, familyOf(p)).spread(p.Kind)
	}
	s[p.Frontend] = p
}

// offered is shared by all portals of an owner that spread in one family: a pool, and the scopes that the traffic
// policies give them.
type offered struct {
	pool               *portal.Pool
	internal, external service.Scope
}

// spread is the target of a portal. No ClusterIP spreads over nothing.
func (o offered) spread(kind service.Kind) portal.Spread {
	scope := o.external
	if kind == service.ClusterIP {
		scope = o.internal
		if len(o.pool.Node) == 0 {
			scope = service.ClusterScope
		}
	}
	return portal.Spread{Pool: o.pool, Scope: scope}
}

func anyOffered(random *rand.Rand, family inet.Family) offered {
	return offered{Pool(random, family), service.Scope(random.IntN(2)), service.Scope(random.IntN(2))}
}

// offered returns the pool and the scopes that the owner has, and random ones in place of those that it lacks.
func (s State) offered(random *rand.Rand, owner service.PortName, family inet.Family) offered {
	o := anyOffered(random, family)
	for _, p := range s.spreading(owner, family) {
		to := p.Target.(portal.Spread)
		o.pool = to.Pool
		if p.Kind == service.ClusterIP {
			o.internal = to.Scope
		} else {
			o.external = to.Scope
		}
	}
	return o
}

// spreading are the portals of an owner that spread in one family.
func (s State) spreading(owner service.PortName, family inet.Family) (out []portal.Portal) {
	for _, p := range s {
		if _, ok := p.Target.(portal.Spread); ok && p.Owner == owner && familyOf(p) == family {
			out = append(out, p)
		}
	}
	return out
}

// repool gives an owner another pool and other scopes in a family, or the latter alone, and returns the frontends
// concerned.
func (s State) repool(random *rand.Rand, owner service.PortName, family inet.Family) (out []service.Frontend) {
	was, is := s.offered(random, owner, family), anyOffered(random, family)
	if random.IntN(3) == 0 || is.pool.Equal(was.pool) {
		is.pool = was.pool
	}
	for _, p := range s.spreading(owner, family) {
		p.Target = is.spread(p.Kind)
		s[p.Frontend] = p
		out = append(out, p.Frontend)
	}
	return out
}

// Pool returns one of a family with one to four endpoints of a few addresses.
func Pool(random *rand.Rand, family inet.Family) *portal.Pool {
	pool := &portal.Pool{Affinity: []time.Duration{0, 0, time.Minute, 3 * time.Hour}[random.IntN(4)]}
	if random.IntN(2) == 0 {
		pool.Algorithm = service.Algorithms()[random.IntN(len(service.Algorithms()))]
	}
	size := 1 + random.IntN(4)
	for _, n := range random.Perm(8)[:size+1] {
		e := portal.Endpoint{Addr: netip.AddrPortFrom(podAddress(n, family), 8080+uint16(n%2)),
			MayHairpin: random.IntN(2) == 0}
		drains := len(pool.Cluster) == size // and serves NodeScope alone
		if !drains {
			pool.Cluster = append(pool.Cluster, e)
		}
		if e.MayHairpin && (!drains || len(pool.Node) == 0) {
			pool.Node = append(pool.Node, e)
		}
	}
	byAddress := func(a, b portal.Endpoint) int { return a.Addr.Compare(b.Addr) }
	slices.SortFunc(pool.Cluster, byAddress)
	slices.SortFunc(pool.Node, byAddress)
	if pool.Restricted = random.IntN(3) == 0; pool.Restricted {
		pool.SourceRanges = sources(family)[:random.IntN(3)]
		pool.AdmitsNode = len(pool.SourceRanges) > 0 && random.IntN(2) == 0
	}
	return pool
}

func podAddress(n int, family inet.Family) netip.Addr {
	if family == inet.IPv6 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 3: 0x44, 15: byte(1 + n)})
	}
	return netip.AddrFrom4([4]byte{10, 244, 0, byte(1 + n)})
}

func sources(family inet.Family) []netip.Prefix {
	if family == inet.IPv6 {
		return prefixes("fd00:7::/32", "fd00:8::8/128")
	}
	return prefixes("192.0.2.0/24", "203.0.113.7/32")
}

func familyOf(p portal.Portal) inet.Family { return inet.FamilyOf(p.Frontend.Addr.Addr()) }

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

package iptables

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
)

// endpointsOf returns addresses, with a ! behind each of this node.
func endpointsOf(text string) (out []portal.Endpoint) {
	for at := range strings.FieldsSeq(text) {
		addr, here := strings.CutSuffix(at, "!")
		out = append(out, portal.Endpoint{Addr: netip.MustParseAddrPort(addr), MayHairpin: here})
	}
	return out
}

func pool(cluster, node string, shape ...func(*portal.Pool)) *portal.Pool {
	p := &portal.Pool{Cluster: endpointsOf(cluster), Node: endpointsOf(node)}
	for _, f := range shape {
		f(p)
	}
	return p
}

func affinity(p *portal.Pool) { p.Affinity = 3 * time.Hour }

func admitsNode(p *portal.Pool) { p.AdmitsNode = true }

func ranges(texts ...string) func(*portal.Pool) {
	return func(p *portal.Pool) { p.Restricted, p.SourceRanges = true, prefixes(texts...) }
}

// spreadPortals are one of each kind in a family. Low tells Services apart.
func spreadPortals(svc string, low byte, family inet.Family, p *portal.Pool, internal,
	external service.Scope) []portal.Portal {
	forms := []string{"10.96.0.%d:80", "0.0.0.0:300%02d", "192.0.2.%d:80", "198.51.100.%d:443"}
	if family == inet.IPv6 {
		forms = []string{"[fd00:96::%d]:80", "[::]:300%02d", "[fd00:2::%d]:80", "[fd00:51::%d]:443"}
	}
	var out []portal.Portal
	for kind, form := range forms {
		scope := external
		if service.Kind(kind) == service.ClusterIP {
			scope = internal
		}
		out = append(out, portal.Portal{
			Frontend: front(fmt.Sprintf(form, low), inet.TCP), Kind: service.Kind(kind), Owner: name(svc, "http"),
			Target: portal.Spread{Pool: p, Scope: scope},
		})
	}
	return out
}

const (
	cluster4 = "10.244.1.2:8080! 10.244.2.2:8080 10.244.3.2:8080"
	node4    = "10.244.1.2:8080!"
	cluster6 = "[fd00:244:1::2]:8080! [fd00:244:2::2]:8080"
	node6    = "[fd00:244:1::2]:8080!"
)

// spreadCases are portals for goldens, by name.
func spreadCases() map[string][]portal.Portal {
	const all, here = service.ClusterScope, service.NodeScope
	cases := map[string][]portal.Portal{
		"kinds": slices.Concat(spreadPortals("cart", 1, inet.IPv4, pool(cluster4, ""), all, all),
			spreadPortals("cart", 1, inet.IPv6, pool(cluster6, ""), all, all)),
		"affinity": slices.Concat(spreadPortals("cart", 1, inet.IPv4, pool(cluster4, node4, affinity), here, here),
			spreadPortals("cart", 1, inet.IPv6, pool(cluster6, node6, affinity), all, all)),
		"node-scope": slices.Concat(spreadPortals("cart", 1, inet.IPv4, pool(cluster4, node4), here, here),
			spreadPortals("shop", 2, inet.IPv4, pool(cluster4, ""), all, here),
			spreadPortals("cart", 1, inet.IPv6, pool(cluster6, node6), all, here)),
		"restricted": slices.Concat(
			spreadPortals("cart", 1, inet.IPv4,
				pool(cluster4, "", ranges("192.0.2.0/24", "203.0.113.7/32"), admitsNode), all, all),
			spreadPortals("shop", 2, inet.IPv4, pool(cluster4, node4, ranges("203.0.113.7/32")), all, here),
			spreadPortals("none", 3, inet.IPv4, pool(cluster4, "", ranges()), all, all),
			spreadPortals("cart", 1, inet.IPv6, pool(cluster6, "", ranges("::/0"), admitsNode), all, all)),
	}
	for i, a := range service.Algorithms() {
		by := func(p *portal.Pool) { p.Algorithm = a }
		cases["algorithms"] = slices.Concat(cases["algorithms"],
			spreadPortals(a.String(), byte(1+2*i), inet.IPv4, pool(cluster4, "", by), all, all),
			spreadPortals(a.String()+"-sticky", byte(2+2*i), inet.IPv6, pool(cluster6, "", by, affinity), all, all))
	}
	others := slices.DeleteFunc(goldenPortals(), func(p portal.Portal) bool {
		return p.Frontend == front("192.0.2.1:443", inet.UDP)
	})
	cases["mixed"] = slices.Concat(others, cases["node-scope"], spreadSCTP())
	return cases
}

func spreadSCTP() []portal.Portal {
	owner := name("call", "sig")
	owner.Protocol = inet.SCTP
	return []portal.Portal{
		{Frontend: front("10.96.0.9:5060", inet.SCTP), Owner: owner,
			Target: portal.Spread{Pool: pool("10.244.2.2:5060", "")}},
		{Frontend: front("0.0.0.0:30060", inet.SCTP), Kind: service.NodePort, Owner: owner, Target: portal.Reject{}},
	}
}

// spreadOptions are the options of a cluster's only service proxy.
func spreadOptions(run runner, variant string) Options {
	o := testOptions(run, variant)
	o.Prefix = "KUBE"
	o.LocalDetector.Sources = prefixes("10.244.0.0/16", "fd00:244::/56")
	return o
}

// clusterIPs are portals of n cluster IPs drawn at random from a /12.
func clusterIPs(n int) []portal.Portal {
	random := rand.New(rand.NewPCG(9, 9))
	drawn := map[uint32]struct{}{}
	for len(drawn) < n {
		drawn[random.Uint32N(1<<20)] = struct{}{}
	}
	var out []portal.Portal
	for low := range drawn {
		addr := netip.AddrFrom4([4]byte{10, 96 + byte(low>>16), byte(low >> 8), byte(low)})
		out = append(out, portal.Portal{
			Frontend: service.Frontend{Addr: netip.AddrPortFrom(addr, 80), Protocol: inet.TCP},
			Owner:    name(fmt.Sprintf("service-%d", low), "http"),
			Target:   portal.Redirect{Port: portaltest.FirstPort + uint16(low%1000)},
		})
	}
	slices.SortFunc(out, func(a, b portal.Portal) int { return a.Frontend.Compare(b.Frontend) })
	return out
}

// spreads are clusterIPs that lead to a number of endpoints each.
func spreads(n, endpoints int) []portal.Portal {
	out := clusterIPs(n)
	for i := range out {
		out[i].Target = portal.Spread{Pool: poolOf(i, endpoints)}
	}
	return out
}

func poolOf(i, endpoints int) *portal.Pool {
	pool := &portal.Pool{}
	for k := range endpoints {
		addr := netip.AddrFrom4([4]byte{10, 244 + byte(i>>16), byte(i >> 8), byte(i)})
		pool.Cluster = append(pool.Cluster, portal.Endpoint{Addr: netip.AddrPortFrom(addr, uint16(8000+k))})
	}
	return pool
}

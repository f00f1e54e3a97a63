package nftables

import (
	"net/netip"
	"strings"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

func testOptions() Options {
	return Options{Options: writer.Options{ProxyPorts: portaltest.ProxyRange()}}
}

// richOptions use everything.
func richOptions() Options {
	o := testOptions()
	o.Mark = 0x1000
	o.ServiceCIDRs = prefixes("10.96.0.0/12", "fd00:96::/108")
	o.LocalDetector = portal.LocalDetector{
		Sources: prefixes("10.244.0.0/16", "10.9.0.1/32", "10.8.0.0/13",
			"fd00:244::/64", "fd00:9::9/128", "fd00:8::/61"),
		Interface: "cni0", InterfacePrefix: "veth",
	}
	return o
}

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// cases are options, each with portals that show what they do.
func cases() map[string]func() (Options, []portal.Portal) {
	return map[string]func() (Options, []portal.Portal){
		"redirects": func() (Options, []portal.Portal) { return testOptions(), redirects() },
		"spreads":   func() (Options, []portal.Portal) { return testOptions(), allSpreads() },
		"inside": func() (Options, []portal.Portal) {
			return richOptions(), append(redirects(), allSpreads()...)
		},
		"algorithms": func() (Options, []portal.Portal) { return testOptions(), algorithms() },
		"addresses": func() (Options, []portal.Portal) {
			o := testOptions()
			o.Table = "kube-proxy"
			o.Masquerade = portal.Masquerade{Mark: 0x10000, All: true}
			o.ProxyAddresses = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd00:2::1")}
			o.NodePortAddresses = prefixes("192.0.2.77/24", "64.0.0.0/2", "127.0.0.0/8", "::/0", "::1/128")
			return o, append(redirects(), allSpreads()...)
		},
	}
}

func redirects() []portal.Portal {
	var out []portal.Portal
	targets := []portal.Target{
		portal.Redirect{Port: 20001}, portal.Redirect{Port: 20002, Inside: true}, portal.Reject{}, portal.Drop{},
	}
	for i, target := range targets {
		for _, addr := range []string{"10.96.0.1", "fd00:96::1", "192.0.2.1", "0.0.0.0", "::"} {
			p := portal.Portal{Target: target, Kind: kindOf(addr), Frontend: frontend(addr, 80+uint16(i), inet.TCP)}
			p.Owner = service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP}
			out = append(out, p)
		}
	}
	out[0].Owner.Port = `a"b\c` + "\n" + strings.Repeat("x", 200)
	return out
}

func frontend(addr string, port uint16, protocol inet.Protocol) service.Frontend {
	return service.Frontend{Addr: netip.AddrPortFrom(netip.MustParseAddr(addr), port), Protocol: protocol}
}

func kindOf(addr string) service.Kind {
	switch addr {
	case "0.0.0.0", "::":
		return service.NodePort
	case "10.96.0.1", "fd00:96::1":
		return service.ClusterIP
	}
	return service.LoadBalancerIP
}

// allSpreads is each kind of pool by each kind of frontend and in each scope, of both families.
func allSpreads() []portal.Portal {
	var out []portal.Portal
	port := uint16(1000)
	for _, protocol := range []inet.Protocol{inet.TCP, inet.UDP, inet.SCTP} {
		for _, addr := range []string{"10.96.0.1", "fd00:96::1", "192.0.2.1", "0.0.0.0", "::"} {
			for _, scope := range []service.Scope{service.ClusterScope, service.NodeScope} {
				for i, pool := range pools(inet.FamilyOf(netip.MustParseAddr(addr))) {
					port++
					p := portal.Portal{Target: portal.Spread{Pool: pool, Scope: scope}, Kind: kindOf(addr)}
					p.Frontend = frontend(addr, port, protocol)
					p.Owner = service.PortName{Namespace: "shop", Name: "cart", Port: string(rune('a' + i)),
						Protocol: protocol}
					out = append(out, p)
				}
			}
		}
	}
	return out
}

// endpoints are some of which the first may hairpin.
func endpoints(addrs ...string) (out []portal.Endpoint) {
	for i, addr := range addrs {
		out = append(out, portal.Endpoint{Addr: netip.MustParseAddrPort(addr), MayHairpin: i == 0})
	}
	return out
}

// pools are each kind of pool.
func pools(family inet.Family) []*portal.Pool {
	all := endpoints("10.244.0.2:8080", "10.244.1.3:8081")
	ranges := prefixes("192.0.2.0/24", "203.0.113.7/32", "203.0.113.6/32", "10.0.1.0/24", "10.0.2.0/24",
		"255.255.255.0/24", "10.0.2.9/32")
	if family == inet.IPv6 {
		all = endpoints("[fd00:244::2]:8080", "[fd00:244::3]:8081")
		ranges = prefixes("fd00:7::/32", "fd00:8::8/128", "fd00:7:1::/64", "ff00::/8")
	}
	return []*portal.Pool{
		{Cluster: all, Node: all[:1]},
		{Cluster: all, Node: all, Affinity: 3*time.Hour + time.Second},
		{Cluster: all[1:], Affinity: time.Minute},
		{},
		{Cluster: all, Restricted: true, SourceRanges: ranges, AdmitsNode: true},
		{Cluster: all, Restricted: true},
	}
}

// algorithms are a ClusterIP and a NodePort for each algorithm, of both families, with affinity and without.
func algorithms() (out []portal.Portal) {
	for i, a := range service.Algorithms() {
		for _, addr := range []string{"10.96.0.1", "fd00:96::1", "0.0.0.0", "::"} {
			for j, pool := range pools(inet.FamilyOf(netip.MustParseAddr(addr)))[:2] {
				pool.Algorithm = a
				p := portal.Portal{Target: portal.Spread{Pool: pool}, Kind: kindOf(addr)}
				p.Frontend = frontend(addr, uint16(80+10*i+j), inet.TCP)
				p.Owner = service.PortName{Namespace: "shop", Name: a.String(), Port: string(rune('a' + j)), Protocol: inet.TCP}
				out = append(out, p)
			}
		}
	}
	return out
}

package ipvs

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

var update = flag.Bool("update", false, "write the golden files anew")

// spread is a portal to endpoints.
func spread(kind service.Kind, addr string, protocol inet.Protocol, endpoints ...string) portal.Portal {
	return with(kind, addr, protocol, service.ClusterScope, &portal.Pool{Cluster: endpointsOf(endpoints...)})
}

func with(kind service.Kind, addr string, protocol inet.Protocol, scope service.Scope,
	pool *portal.Pool) portal.Portal {
	return portal.Portal{
		Frontend: service.Frontend{Addr: netip.MustParseAddrPort(addr), Protocol: protocol}, Kind: kind,
		Owner:  service.PortName{Namespace: "shop", Name: "web", Protocol: protocol},
		Target: portal.Spread{Pool: pool, Scope: scope},
	}
}

// endpointsOf reads endpoints; one that begins with ! is on this node.
func endpointsOf(texts ...string) (out []portal.Endpoint) {
	for _, text := range texts {
		here := text[0] == '!'
		if here {
			text = text[1:]
		}
		out = append(out, portal.Endpoint{Addr: netip.MustParseAddrPort(text), MayHairpin: here})
	}
	return out
}

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func addrs(texts ...string) (out []netip.Addr) {
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

func goldenPortals() []portal.Portal {
	pool := &portal.Pool{Cluster: endpointsOf("!10.244.0.2:8080", "10.244.1.2:8080"),
		Node: endpointsOf("!10.244.0.2:8080")}
	sticky := &portal.Pool{Cluster: endpointsOf("10.244.1.3:53"), Affinity: 3 * time.Hour}
	ranges := &portal.Pool{Cluster: endpointsOf("10.244.1.4:80"), SourceRanges: prefixes("192.0.2.0/24",
		"203.0.113.7/32"), Restricted: true, AdmitsNode: true}
	six := &portal.Pool{Cluster: endpointsOf("!10.244.0.2:8080"), Node: nil}
	six.Cluster = endpointsOf("![fd00:244::2]:8080")
	six.SourceRanges, six.Restricted = prefixes("2001:db8::/32"), true
	redirect := spread(service.ClusterIP, "10.96.0.9:80", inet.TCP)
	redirect.Target = portal.Redirect{Port: 20000}
	by := func(a service.Algorithm, affinity time.Duration) *portal.Pool {
		return &portal.Pool{Cluster: endpointsOf("10.244.1.5:80", "10.244.2.5:80"), Algorithm: a, Affinity: affinity}
	}
	return []portal.Portal{
		with(service.ClusterIP, "10.96.0.4:80", inet.TCP, service.ClusterScope, by(service.RoundRobin, 0)),
		with(service.ClusterIP, "10.96.0.4:81", inet.TCP, service.ClusterScope, by(service.LeastConnections, 0)),
		with(service.ClusterIP, "10.96.0.4:82", inet.TCP, service.ClusterScope, by(service.SourceHash, 0)),
		with(service.ClusterIP, "10.96.0.4:83", inet.TCP, service.ClusterScope, by(service.SourceHash, time.Hour)),
		with(service.ClusterIP, "10.96.0.4:84", inet.TCP, service.ClusterScope, by(service.Random, 0)),
		with(service.ClusterIP, "10.96.0.1:80", inet.TCP, service.ClusterScope, pool),
		with(service.NodePort, "0.0.0.0:30080", inet.TCP, service.NodeScope, pool),
		with(service.ExternalIP, "198.51.100.1:80", inet.TCP, service.ClusterScope, pool),
		with(service.ExternalIP, "192.0.2.1:80", inet.TCP, service.NodeScope, pool),
		with(service.ClusterIP, "10.96.0.2:53", inet.UDP, service.ClusterScope, sticky),
		with(service.NodePort, "0.0.0.0:30053", inet.UDP, service.NodeScope, sticky),
		with(service.ClusterIP, "10.96.0.3:80", inet.SCTP, service.ClusterScope, ranges),
		with(service.LoadBalancerIP, "198.51.100.3:80", inet.TCP, service.ClusterScope, ranges),
		with(service.ClusterIP, "[fd00:96::1]:80", inet.TCP, service.ClusterScope, six),
		with(service.NodePort, "[::]:30080", inet.TCP, service.ClusterScope, six),
		with(service.LoadBalancerIP, "[fd00:51::1]:80", inet.TCP, service.NodeScope, six),
		redirect,
	}
}

// goldens are the Options of the golden files, by name.
func goldens() map[string]Options {
	node := addrs("127.0.0.1", "192.0.2.1", "10.0.0.1", "::1", "fd00:2::1", "fe80::1")
	pods := portal.LocalDetector{Sources: prefixes("10.244.0.0/16", "fd00:244::/64"), Interface: "cni0",
		InterfacePrefix: "veth"}
	return map[string]Options{
		"plain": {NodeAddresses: node},
		"sole": {Prefix: SolePrefix, NodeAddresses: node, LocalDetector: pods, Scheduler: "mh",
			NodePortAddresses: prefixes("192.0.2.0/24", "fd00:2::/64")},
		"all": {Prefix: "PORTALD-0A1B2C", Masquerade: portal.Masquerade{Mark: 1, All: true}, LocalDetector: pods},
	}
}

func TestGolden(t *testing.T) {
	for name, o := range goldens() {
		t.Run(name, func(t *testing.T) {
			portals := goldenPortals()
			text, err := Render(o, portals)
			if err != nil {
				t.Fatal(err)
			}
			slices.Reverse(portals)
			if again, _ := Render(o, portals); string(again) != string(text) {
				t.Error("another order, another text")
			}
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(path, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			golden, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(golden), string(text)); diff != "" {
				t.Errorf("%s (-want +got; -update writes it anew):\n%s", path, diff)
			}
		})
	}
}

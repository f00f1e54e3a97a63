package portaltest

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

func clusterIPs(s *spreading) {
	cluster, node := s.offer("cluster", 80, "abc"), s.offer("node", 81, "abc")
	node.internal = service.NodeScope
	s.Write(slices.Concat(cluster.portals(), node.portals()))
	for o, by := range map[*offer]string{cluster: "abc", node: "ab"} {
		s.expect(o, reach{s.client, internalKinds(), by, masqueraded}, reach{s.node, internalKinds(), by, masqueraded},
			reach{s.guest, internalKinds(), by, own}, reach{s.a, internalKinds(), by, own})
	}
}

func externalFrontends(s *spreading) {
	o := s.offer("cluster", 80, "abc")
	s.Write(o.portals())
	for _, from := range []*Party{s.client, s.node, s.guest, s.a} {
		s.expect(o, reach{from, externalKinds(), "abc", masqueraded})
	}
}

// local is an offer whose external frontends have NodeScope.
func (s *spreading) local(port uint16, endpoints string, shape ...func(*portal.Pool)) *offer {
	o := s.offer(fmt.Sprintf("local-%d", port), port, endpoints, shape...)
	o.external = service.NodeScope
	return o
}

func nodeScopeOutside(s *spreading) {
	some, none := s.local(80, "abc"), s.local(81, "c")
	s.Write(slices.Concat(some.portals(), none.portals()))
	s.expect(some, reach{s.client, externalKinds(), "ab", own})
	s.expect(none, reach{s.client, externalKinds(), "", own})
}

func nodeScopeInside(s *spreading) {
	o := s.local(80, "abc")
	s.Write(o.portals())
	s.expect(o, reach{s.node, externalKinds(), "abc", masqueraded}, reach{s.guest, externalKinds(), "abc", own},
		reach{s.a, externalKinds(), "abc", own})
}

func nodeScopeInsideNone(s *spreading) {
	o := s.local(80, "c")
	s.Write(o.portals())
	s.expect(o, reach{s.node, externalKinds(), "c", masqueraded}, reach{s.guest, externalKinds(), "c", own},
		reach{s.a, externalKinds(), "c", own})
}

// Packets of c come in by another interface than packets of pods.
func podsByInterface(s *spreading) {
	o := s.local(80, "ab")
	s.Write(o.portals())
	s.expect(o, reach{s.client, internalKinds(), "ab", masqueraded}, reach{s.c, internalKinds(), "ab", masqueraded},
		reach{s.node, internalKinds(), "ab", masqueraded}, reach{s.guest, kinds(), "ab", own}, reach{s.a, kinds(), "ab", own})
	none := s.local(81, "c")
	s.Write(none.portals())
	s.expect(none, reach{s.client, externalKinds(), "", own}, reach{s.guest, externalKinds(), "c", own},
		reach{s.a, externalKinds(), "c", own}, reach{s.node, externalKinds(), "c", masqueraded})
}

func noPodsKnown(s *spreading) {
	o := s.offer("cluster", 80, "abc")
	s.Write(o.portals())
	for _, from := range []*Party{s.client, s.guest, s.a} {
		s.expect(o, reach{from, internalKinds(), "abc", own})
	}
	s.expect(o, reach{s.guest, externalKinds(), "abc", masqueraded})
}

func noPodsKnownNode(s *spreading) {
	o := s.offer("cluster", 80, "abc")
	s.Write(o.portals())
	s.expect(o, reach{s.node, internalKinds(), "abc", own})
}

func masqueradeAll(s *spreading) {
	o := s.local(80, "ab")
	s.Write(o.portals())
	for _, from := range []*Party{s.client, s.node, s.guest, s.a} {
		s.expect(o, reach{from, internalKinds(), "ab", masqueraded})
	}
	s.expect(o, reach{s.client, externalKinds(), "ab", own}, reach{s.guest, externalKinds(), "ab", own})
}

// Admitted are the client and the guest; only LoadBalancerIPs ask who one is.
func sourceRanges(s *spreading) {
	cluster := s.offer("cluster", 80, "abc", s.admit(s.client, s.guest))
	local := s.local(81, "ab", s.admit(s.client, s.guest))
	nobody := s.offer("nobody", 82, "abc", s.admit())
	s.Write(slices.Concat(cluster.portals(), local.portals(), nobody.portals()))
	balanced, others := kinds()[3:], kinds()[:3]
	s.expect(cluster, reach{s.client, balanced, "abc", masqueraded}, reach{s.guest, balanced, "abc", masqueraded},
		reach{s.a, balanced, "", own}, reach{s.a, others, "abc", anyone})
	s.expect(local, reach{s.client, balanced, "ab", own}, reach{s.guest, balanced, "ab", own},
		reach{s.a, balanced, "", own})
	s.expect(nobody, reach{s.client, balanced, "", own}, reach{s.guest, balanced, "", own},
		reach{s.client, others, "abc", masqueraded})
}

// Among a thousand ranges of others are those of the client and of the guest; some overlap, some touch.
func sourceRangesMany(s *spreading) {
	others := func(pool *portal.Pool) {
		family := inet.FamilyOf(pool.Cluster[0].Addr.Addr())
		for i := range 1000 {
			addr := addrs(fmt.Sprintf("172.16.%d.%d", i/64, i%64*4), fmt.Sprintf("fd00:172:16::%x:%x", i/64, i%64*4)).Of(family)
			pool.SourceRanges = append(pool.SourceRanges, netip.PrefixFrom(addr, addr.BitLen()-i%4))
		}
	}
	o := s.offer("many", 80, "abc", s.admit(s.client, s.guest), others)
	s.Write(nil)
	s.update(o.changes())
	balanced := kinds()[3:]
	s.expect(o, reach{s.client, balanced, "abc", masqueraded}, reach{s.guest, balanced, "abc", masqueraded},
		reach{s.a, balanced, "", own})
	s.Write(o.portals())
	s.expect(o, reach{s.client, balanced, "abc", masqueraded}, reach{s.a, balanced, "", own})
}

func sourceRangesNode(s *spreading) {
	with, without := s.offer("with", 80, "abc", s.admit(s.node)), s.offer("without", 81, "abc", s.admit(s.client))
	nobody := s.local(82, "ab", s.admit())
	s.Write(slices.Concat(with.portals(), without.portals(), nobody.portals()))
	balanced, others := kinds()[3:], kinds()[:3]
	s.expect(with, reach{s.node, balanced, "abc", masqueraded})
	s.expect(without, reach{s.node, balanced, "", own}, reach{s.node, others, "abc", masqueraded})
	s.expect(nobody, reach{s.node, balanced, "", own}, reach{s.node, others, "ab", masqueraded})
}

// A node that has a load balancer's address itself dials it from there. Who else comes from there is not admitted.
func sourceRangesHeld(s *spreading) {
	balanced := kinds()[3:]
	for _, family := range inet.Families() {
		addr := frontendHost(balanced[0]).Of(family)
		s.Node.Must(func() error { return netnstest.Up("lo", []string{netip.PrefixFrom(addr, addr.BitLen()).String()}) })
	}
	with, without := s.offer("with", 80, "abc", s.admit(s.node)), s.offer("without", 81, "abc", s.admit(s.client))
	s.Write(slices.Concat(with.portals(), without.portals()))
	for _, family := range inet.Families() { // of datagrams the first may be lost, where neighbours are not known yet
		Asks(s.Node, "tcp", with.dial(balanced[0], family), netip.Addr{}, 20, answerTime)
	}
	s.expect(with, reach{s.node, balanced, "abc", masqueraded}, reach{s.client, balanced, "", own})
	s.expect(without, reach{s.node, balanced, "", own}, reach{s.client, balanced, "abc", masqueraded})
	with.lead(s, "ab", s.admit(s.client)) // the node has lost the address that was admitted
	without.lead(s, "ab", s.admit(s.client, s.node))
	s.update(slices.Concat(with.changes(), without.changes()))
	s.expect(with, reach{s.node, balanced, "", own}, reach{s.client, balanced, "ab", masqueraded})
	s.expect(without, reach{s.node, balanced, "ab", masqueraded})
}

// admit restricts a pool to parties.
func (s *spreading) admit(parties ...*Party) func(*portal.Pool) {
	return func(pool *portal.Pool) {
		pool.Restricted = true
		for _, p := range parties {
			addr := p.Addrs.Of(inet.FamilyOf(pool.Cluster[0].Addr.Addr()))
			pool.SourceRanges = append(pool.SourceRanges, netip.PrefixFrom(addr, addr.BitLen()))
			pool.AdmitsNode = pool.AdmitsNode || p == s.node
		}
	}
}

func hairpin(s *spreading) {
	cluster, sticky := s.offer("cluster", 80, "a"), s.offer("sticky", 81, "a", affinity(time.Minute))
	local := s.local(82, "a")
	local.internal = service.NodeScope
	s.Write(slices.Concat(cluster.portals(), sticky.portals(), local.portals()))
	for _, o := range []*offer{cluster, sticky, local} {
		s.expect(o, reach{s.a, kinds(), "a", masqueraded})
	}
	s.expect(local, reach{s.guest, kinds(), "a", own}, reach{s.client, externalKinds(), "a", own})
}

// hostEndpoint has one that uses the node's own address. Packets that do not leave the node keep their source address.
func hostEndpoint(s *spreading) {
	s.node.Name = "n"
	s.node.Serve(s.TB, podPort)
	cluster, local := s.offer("cluster", 80, "n"), s.local(81, "n")
	s.Write(slices.Concat(cluster.portals(), local.portals()))
	for _, o := range []*offer{cluster, local} {
		s.expect(o, reach{s.client, kinds(), "n", own}, reach{s.guest, kinds(), "n", own},
			reach{s.node, kinds(), "n", anyone})
	}
}

func nodePortAddresses(s *spreading) {
	o := s.offer("cluster", 80, "abc")
	s.Write(o.portals())
	nodePorts := kinds()[1:2]
	for _, from := range []*Party{s.client, s.node, s.guest} {
		s.expect(o, reach{from, nodePorts, "abc", masqueraded})
		s.refused(from, o.portOf(service.NodePort), s.guest.Gateway)
	}
}

func loopbackNodePorts(s *spreading) {
	o := s.offer("cluster", 80, "abc")
	s.Write(o.portals())
	s.refused(s.node, o.portOf(service.NodePort), addrs("127.0.0.1", "::1"))
	for _, from := range []*Party{s.client, s.node, s.guest} {
		for _, family := range inet.Families() {
			addr := netip.AddrPortFrom(s.guest.Gateway.Of(family), o.portOf(service.NodePort)).String()
			if r := Asks(from.Namespace, "tcp", addr, netip.Addr{}, 1, answerTime)[0]; r.By == "" {
				s.Errorf("the %s asks at another address of the node, %s: %v", from.Name, addr, r)
			}
		}
	}
}

// refused asks where there is no portal.
func (s *spreading) refused(from *Party, port uint16, hosts Addrs) {
	s.Helper()
	for _, family := range inet.Families() {
		for _, proto := range protocols() {
			addr := netip.AddrPortFrom(hosts.Of(family), port).String()
			if r := Asks(from.Namespace, proto.String(), addr, netip.Addr{}, 1, answerTime)[0]; r.Came != Refused {
				s.Errorf("the %s asks %s %s: %v, want refused", from.Name, proto, addr, r)
			}
		}
	}
}

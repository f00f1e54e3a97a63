package splicetest

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
)

func transparentScenarios() []scenario {
	return []scenario{
		{name: "Transparent", run: transparent, needs: ClientAddresses, scope: network},
		{name: "TransparentRetry", run: transparentRetry, needs: ClientAddresses, scope: network},
		{name: "TransparentUnprivileged", run: transparentUnprivileged, needs: ClientAddresses, scope: network},
	}
}

// routeReplies has replies to a client's address that are meant for a transparent socket come there.
func (c *cluster) routeReplies() {
	c.Helper()
	const rule = "PREROUTING -m socket --transparent --nowildcard -j MARK --set-mark 0x200"
	c.run("iptables -t mangle -A "+rule, "ip6tables -t mangle -A "+rule,
		"ip rule add fwmark 0x200 lookup 100", "ip route add local default dev lo table 100",
		"ip -6 rule add fwmark 0x200 lookup 100", "ip -6 route add local default dev lo table 100")
}

// returns is Options.Returns of a cluster with such rules: they do not concern what the node itself sends.
func returns(client, endpoint netip.Addr, _ int) bool {
	return client != endpoint && !isNode(client) && !isNode(endpoint)
}

func isNode(a netip.Addr) bool {
	return slices.Contains(towardClient[:], a) || slices.Contains(towardPod[:], a)
}

var asClient = service.Policy{ClientAddress: service.AddressTransparent}

// transparent: an endpoint sees the client's address, unless the answer would not come back.
func transparent(t *trial) {
	c := newCluster(t)
	c.routeReplies()
	d := t.start(splice.Options{Policy: asClient, Returns: returns, Warn: func(err error) { t.Error(err) }})
	eachProtocol(func(protocol inet.Protocol, family inet.Family) {
		expose := func(endpoint netip.AddrPort) uint16 {
			return expose(d, service.Port{}, protocol, family, toOne(endpoint))
		}
		toPod := expose(c.whoami(c.pod, protocol, podAddrs[family]))
		toNode := expose(c.whoami(c.node, protocol, towardPod[family]))
		for _, from := range []struct {
			name string
			ns   *netnstest.Namespace
			dial netip.AddrPort
			want netip.Addr
		}{
			{"client", c.client, netip.AddrPortFrom(towardClient[family], toPod), clientAddrs[family]},
			{"client, again", c.client, netip.AddrPortFrom(towardClient[family], toPod), clientAddrs[family]},
			{"hairpin", c.pod, netip.AddrPortFrom(towardPod[family], toPod), towardPod[family]},
			{"this node", c.node, netip.AddrPortFrom(towardClient[family], toPod), towardPod[family]},
			{"endpoint on this node", c.client, netip.AddrPortFrom(towardClient[family], toNode), towardPod[family]},
		} {
			if seen, err := seenFrom(from.ns, protocol, from.dial); err != nil || seen != from.want {
				t.Errorf("%s, %s: the endpoint sees %s, want %s: %v", from.name, protocol, seen, from.want, err)
			}
		}
	})
}

// transparentRetry: a transparent datagram that is refused is noticed, and goes elsewhere.
func transparentRetry(t *trial) {
	c := newCluster(t)
	c.routeReplies()
	d := t.start(splice.Options{Policy: asClient, Returns: returns})
	eachProtocol(func(protocol inet.Protocol, family inet.Family) {
		const unused = 9
		live := c.whoami(c.pod, protocol, podAddrs[family])
		list := []netip.AddrPort{netip.AddrPortFrom(podAddrs[family], unused), live}
		port := expose(d, service.Port{}, protocol, family, splice.Pickers{&ring{list: list}})
		seen, err := seenFrom(c.client, protocol, netip.AddrPortFrom(towardClient[family], port))
		if err != nil || seen != clientAddrs[family] {
			t.Errorf("%s: the endpoint sees %s: %v", protocol, seen, err)
		}
	})
}

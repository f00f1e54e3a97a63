package splice

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/proxy/service"
)

// leadBack has replies to a client's address that are meant for a transparent socket come there.
func (n *network) leadBack() {
	n.t.Helper()
	const rule = "PREROUTING -m socket --transparent --nowildcard -j MARK --set-mark 0x200"
	n.run(n.node, "iptables -t mangle -A "+rule, "ip6tables -t mangle -A "+rule)
	n.run(n.node, "ip rule add fwmark 0x200 lookup 100", "ip route add local default dev lo table 100",
		"ip -6 rule add fwmark 0x200 lookup 100", "ip -6 route add local default dev lo table 100")
}

// comesBack is Options.Returns of the network with such rules: they are not asked for what the node itself sends.
func comesBack(client, endpoint netip.Addr) bool {
	return client != endpoint && !isNode(client) && !isNode(endpoint)
}

func isNode(a netip.Addr) bool {
	return slices.Contains(towardClient[:], a) || slices.Contains(towardPod[:], a)
}

// without takes all capabilities from the calling thread.
func without() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}

// An endpoint sees the client's address, unless the answer would not come back.
func TestTransparent(t *testing.T) {
	n := newNetwork(t)
	n.leadBack()
	r := newRigIn(t, n.node, Options{
		Policy: service.Policy{ClientAddress: service.AddressTransparent}, Returns: comesBack,
		Trouble: func(err error) { t.Error(err) },
	}, nothing)
	for i, family := range service.IPFamilies() {
		for _, protocol := range protocols {
			pod, here := whoami(t, n.pod, protocol, podAddrs[i]), whoami(t, n.node, protocol, towardPod[i])
			toPod := r.expose(t, n.node, &service.Port{}, protocol, family, Pickers{&ring{list: []netip.AddrPort{pod}}})
			toNode := r.expose(t, n.node, &service.Port{}, protocol, family, Pickers{&ring{list: []netip.AddrPort{here}}})
			for _, c := range []struct {
				name string
				from *portaltest.Namespace
				dial netip.AddrPort
				want netip.Addr
			}{
				{"client", n.client, netip.AddrPortFrom(towardClient[i], toPod), clientAddrs[i]},
				{"client, again", n.client, netip.AddrPortFrom(towardClient[i], toPod), clientAddrs[i]},
				{"hairpin", n.pod, netip.AddrPortFrom(towardPod[i], toPod), towardPod[i]},
				{"this node", n.node, netip.AddrPortFrom(towardClient[i], toPod), towardPod[i]},
				{"endpoint on this node", n.client, netip.AddrPortFrom(towardClient[i], toNode), towardPod[i]},
			} {
				if seen, err := askIn(c.from, protocol, c.dial); err != nil || seen != c.want {
					t.Errorf("%s, %s by %s: the endpoint sees %s, want %s: %v", c.name, protocol, c.dial, seen, c.want, err)
				}
			}
		}
	}
}

// A transparent datagram that is refused is told of, and goes elsewhere.
func TestTransparentRetry(t *testing.T) {
	n := newNetwork(t)
	n.leadBack()
	r := newRigIn(t, n.node, Options{Policy: service.Policy{ClientAddress: service.AddressTransparent}, Returns: comesBack}, nothing)
	for i, family := range service.IPFamilies() {
		for _, protocol := range protocols {
			live := whoami(t, n.pod, protocol, podAddrs[i])
			list := []netip.AddrPort{netip.AddrPortFrom(podAddrs[i], 9), live}
			port := r.expose(t, n.node, &service.Port{}, protocol, family, Pickers{&ring{list: list}})
			if seen, err := askIn(n.client, protocol, netip.AddrPortFrom(towardClient[i], port)); err != nil || seen != clientAddrs[i] {
				t.Errorf("%s: the endpoint sees %s: %v", protocol, seen, err)
			}
		}
	}
}

// Without the capability endpoints see the node's address, and that is told once.
func TestTransparentWithoutCapability(t *testing.T) {
	n := newNetwork(t)
	troubles := make(chan error, 100)
	r := newRigIn(t, n.node, Options{
		Policy: service.Policy{ClientAddress: service.AddressTransparent}, Returns: comesBack, Trouble: func(err error) { troubles <- err },
	}, without)
	for i, family := range service.IPFamilies() {
		for _, protocol := range protocols {
			pod := whoami(t, n.pod, protocol, podAddrs[i])
			port := r.expose(t, n.node, &service.Port{}, protocol, family, Pickers{&ring{list: []netip.AddrPort{pod}}})
			if seen, err := askIn(n.client, protocol, netip.AddrPortFrom(towardClient[i], port)); err != nil || seen != towardPod[i] {
				t.Errorf("%s: the endpoint sees %s, want %s: %v", protocol, seen, towardPod[i], err)
			}
		}
	}
	if err := <-troubles; !errors.Is(err, ErrTransparent) || !errors.Is(err, unix.EPERM) || len(troubles) != 0 {
		t.Errorf("told %v, and %d more", err, len(troubles))
	}
}

package splicetest

import (
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
)

func markScenarios() []scenario {
	return []scenario{{name: "Mark", run: mark, needs: Marks, scope: network}}
}

// mark: all that is sent to endpoints has the mark of the options. The node lets nothing else out to the pod.
func mark(t *trial) {
	c := newCluster(t)
	for _, command := range []string{"iptables", "ip6tables"} {
		for _, protocol := range []string{"tcp", "udp"} {
			c.run(command + " -A OUTPUT -o pod0 -p " + protocol + " -m mark ! --mark 0x40 -j REJECT")
		}
	}
	d := t.start(splice.Options{Mark: 0x40})
	eachProtocol(func(protocol inet.Protocol, family inet.Family) {
		pod := c.whoami(c.pod, protocol, podAddrs[family])
		port := expose(d, service.Port{}, protocol, family, toOne(pod))
		seen, err := seenFrom(c.client, protocol, netip.AddrPortFrom(towardClient[family], port))
		if err != nil || seen != towardPod[family] {
			t.Errorf("%s: the endpoint sees %s: %v", protocol, seen, err)
		}
		if _, err := seenFrom(c.node, protocol, pod); err == nil {
			t.Errorf("%s: what has no mark reaches %s", protocol, pod)
		}
	})
}

package integration

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portald/portald/integration/topology"
)

// An endpoint may be any address that a tenant writes: its own Service's, another's that leads back, or a node port of this
// node. One client of such a Service costs as many tries as there are, and others are served meanwhile.
func TestEndpointsThatAreFrontends(t *testing.T) { eachMode(t, (*bed).endpointsThatAreFrontends) }

func (b *bed) endpointsThatAreFrontends(m mode) {
	b.servePods(0)
	loop := func(name string, n, node int, endpoint4, endpoint6 string, target int) svc {
		return svc{
			name: name, kind: "NodePort", mode: "userspace", ips: []string{fmt.Sprintf("10.96.0.%d", n), fmt.Sprintf("fd00:10:96::%d", n)},
			ports: []port{{"http", "TCP", 80, node, target}, {"talk", "UDP", 80, node, target}},
			pods:  []endpoint{{v4: netip.MustParseAddr(endpoint4), v6: netip.MustParseAddr(endpoint6)}},
		}
	}
	services := []svc{
		loop("own", 21, 30021, "10.96.0.21", "fd00:10:96::21", 80),
		loop("there", 22, 30022, "10.96.0.23", "fd00:10:96::23", 80),
		loop("and-back", 23, 30023, "10.96.0.22", "fd00:10:96::22", 80),
		loop("node", 24, 30024, b.node.IPv4.String(), b.node.IPv6.String(), 30024),
		loop("other-mode", 25, 30025, ip4, ip6, 80), // which the kernel may carry
	}
	text := b.cart(0).String()
	for _, s := range services {
		text += s.String()
	}
	d := b.start(text, m.args...)
	var asked sync.WaitGroup
	for _, s := range services {
		for _, ip := range s.ips {
			for _, network := range []string{"tcp", "udp"} {
				for _, from := range []*topology.Host{b.client, b.net.Pod(1)} {
					asked.Go(func() {
						if a, err := whoWithin(time.Second, from, network, at(ip, 80)); err == nil {
							b.Errorf("%s %s of %s is answered by %s", network, ip, s.name, a.pod)
						}
					})
				}
			}
		}
	}
	asked.Wait()
	for _, network := range []string{"tcp", "udp"} {
		if a, err := who(b.client, network, at(ip4, 80)); err != nil || a.pod != podName(0) {
			b.Errorf("%s of another Service: %q, %v", network, a.pod, err)
		}
	}
	if n := d.metric("process_open_fds"); n == 0 || n > 400 {
		b.Errorf("%v descriptors are open, want those of some fifty listeners and forty clients", n)
	}
	for _, s := range services {
		want := fmt.Sprintf("is an address of the Service shop/%s itself", map[string]string{
			"own": "own", "there": "and-back", "and-back": "there", "node": "node", "other-mode": "cart",
		}[s.name])
		if log := d.log.String(); !strings.Contains(log, want) {
			b.Errorf("nothing is said of %s: want %q", s.name, want)
		}
	}
}

package modes

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// A tenant can write any endpoint address: a cluster IP of the same Service, of another Service that points back, or a
// node port of this node. A connection to such a loop costs a bounded number of dials and does not delay others.
func TestEndpointsThatAreFrontends(t *testing.T) { bed.EachMode(t, endpointsThatAreFrontends) }

func endpointsThatAreFrontends(b *bed.Bed, m bed.Mode) {
	b.ServePods(0)
	loop := func(name string, n, node int, endpoint4, endpoint6 string, target int) bed.Service {
		return bed.Service{
			Name: name, Kind: "NodePort", Mode: "userspace", IPs: []string{fmt.Sprintf("10.96.0.%d", n),
				fmt.Sprintf("fd00:10:96::%d", n)},
			Ports: []bed.Port{bed.NewPort("http", "TCP", 80, node, target), bed.NewPort("talk", "UDP", 80, node, target)},
			Pods:  []bed.Endpoint{{V4: netip.MustParseAddr(endpoint4), V6: netip.MustParseAddr(endpoint6)}},
		}
	}
	services := []bed.Service{
		loop("own", 21, 30021, "10.96.0.21", "fd00:10:96::21", 80),
		loop("there", 22, 30022, "10.96.0.23", "fd00:10:96::23", 80),
		loop("and-back", 23, 30023, "10.96.0.22", "fd00:10:96::22", 80),
		loop("node", 24, 30024, b.Node.IPv4.String(), b.Node.IPv6.String(), 30024),
		loop("other-mode", 25, 30025, bed.IP4, bed.IP6, 80), // cart, which the kernel forwards in some modes
	}
	text := b.Cart(0).String()
	for _, s := range services {
		text += s.String()
	}
	d := b.Start(text, m.Args...)
	var wg sync.WaitGroup
	for _, s := range services {
		for _, ip := range s.IPs {
			for _, network := range []string{"tcp", "udp"} {
				for _, from := range []*topology.Host{b.Client, b.Net.Pod(1)} {
					wg.Go(func() {
						if a, err := bed.AskWithin(time.Second, from, network, bed.HostPort(ip, 80)); err == nil {
							b.Errorf("%s %s of %s is answered by %s", network, ip, s.Name, a.Pod)
						}
					})
				}
			}
		}
	}
	wg.Wait()
	for _, network := range []string{"tcp", "udp"} {
		if a, err := bed.Ask(b.Client, network, bed.HostPort(bed.IP4, 80)); err != nil || a.Pod != bed.PodName(0) {
			b.Errorf("%s of another Service: %q, %v", network, a.Pod, err)
		}
	}
	if n := d.Metric("process_open_fds"); n == 0 || n > 400 {
		b.Errorf("%v descriptors are open, want at most 400: some 50 listeners and 40 clients", n)
	}
	for _, s := range services {
		want := fmt.Sprintf("is an address of the Service shop/%s itself", map[string]string{
			"own": "own", "there": "and-back", "and-back": "there", "node": "node", "other-mode": "cart",
		}[s.Name])
		if log := d.Log.String(); !strings.Contains(log, want) {
			b.Errorf("the log does not report the loop of %s: want %q", s.Name, want)
		}
	}
}

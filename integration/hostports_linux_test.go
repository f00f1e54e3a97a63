package integration

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/portald/portald/integration/topology"
)

// Servers of the host in the range of proxy ports, at the first ports that portald would take too, are reached by everybody
// while portald serves and when it has ended.
func TestServersOfTheHost(t *testing.T) { eachMode(t, (*bed).serversOfTheHost) }

const hostName = "the host's own"

func (b *bed) serversOfTheHost(m mode) {
	b.servePods(0)
	wildcard, v4, v6 := "[::]", b.node.IPv4.String(), b.node.IPv6.String()
	places := map[int]string{11000: wildcard, 11001: "127.0.0.1", 11002: "::1", 11003: v4, 11004: v6, 16443: wildcard, 29999: wildcard}
	for port, host := range places {
		address := at(strings.Trim(host, "[]"), port)
		b.serveAt(b.node, address, namesItself(hostName))
		b.serveUDPAt(b.node, address, hostName)
	}
	hear := func(when string) {
		b.Helper()
		for port, host := range places {
			for _, to := range []string{v4, v6, "127.0.0.1", "::1"} {
				if host != wildcard && host != to {
					continue
				}
				for _, from := range []*topology.Host{b.node, b.client, b.net.Pod(1)} {
					if parse(to).IsLoopback() && from != b.node {
						continue
					}
					for _, network := range []string{"tcp", "udp"} {
						if network == "udp" && host == wildcard && from == b.net.Pod(1) {
							continue // it would answer from another address
						}
						if a, err := who(from, network, at(to, port)); err != nil || a.pod != hostName {
							b.Errorf("%s: %s %s from %s: %q, %v, want the server of the host", when, network, at(to, port), from.Name, a.pod, err)
						}
					}
				}
			}
		}
	}
	serves := func(when string, ips ...string) {
		b.Helper()
		for _, ip := range ips {
			for _, network := range []string{"tcp", "udp"} {
				if a, err := who(b.client, network, at(ip, 80)); err != nil || a.pod != podName(0) {
					b.Errorf("%s: %s %s: %q, %v", when, network, ip, a.pod, err)
				}
			}
		}
	}
	hear("before")
	d := b.start(b.cart(0), m.args...)
	hear("while the mode's own Service is served")
	serves("the mode's own Service", ip4, ip6)

	flipped := b.cart(0)
	flipped.name, flipped.kind, flipped.ips, flipped.mode = "flipped", "", []string{"10.96.0.11", "fd00:10:96::11"}, "userspace"
	for i := range flipped.ports {
		flipped.ports[i].node = 0
	}
	d.apply(b.cart(0).String() + flipped.String())
	hear("while a Service is in userspace")
	serves("the Service in userspace", flipped.ips...)
	b.refusedStraight(v4)
	d.stop()
	hear("after the end")
	if m.kernel {
		serves("by what the daemon left", ip4, ip6, flipped.ips[0], flipped.ips[1])
	}
}

// refusedStraight looks for the daemon's listeners in the range, and dials them.
func (b *bed) refusedStraight(node string) {
	b.Helper()
	straight := 0
	for _, network := range []string{"tcp", "udp"} {
		for port := 11000; port < 11020; port++ {
			_, err := who(b.client, network, at(node, port))
			if errors.Is(err, syscall.ECONNREFUSED) && b.listensThere(network, port) {
				straight++
			} else if err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
				b.Errorf("%s %d of the range: %v", network, port, err)
			}
		}
	}
	if straight < 2 {
		b.Errorf("%d listeners of the daemon refuse what comes straight, want one a protocol at least", straight)
	}
}

// listensThere tells whether the daemon has a socket of IPv4 at the port.
func (b *bed) listensThere(network string, port int) bool {
	b.Helper()
	return strings.Contains(b.on(b.node, "cat", "/proc/net/"+network), fmt.Sprintf(": 00000000:%04X 00000000:0000 ", port))
}

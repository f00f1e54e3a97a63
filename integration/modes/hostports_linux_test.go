package modes

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// Servers of the host listen in the range of proxy ports, at the ports that portald would choose first. All clients
// reach them while portald runs and after it has ended.
func TestServersOfTheHost(t *testing.T) { bed.EachMode(t, serversOfTheHost) }

const hostName = "the host's own"

func serversOfTheHost(b *bed.Bed, m bed.Mode) {
	b.ServePods(0)
	wildcard, v4, v6 := "[::]", b.Node.IPv4.String(), b.Node.IPv6.String()
	places := map[int]string{11000: wildcard, 11001: "127.0.0.1", 11002: "::1", 11003: v4, 11004: v6, 16443: wildcard,
		29999: wildcard}
	for port, host := range places {
		address := bed.HostPort(strings.Trim(host, "[]"), port)
		b.ServeAt(b.Node, address, bed.NamesItself(hostName))
		b.ServeUDPAt(b.Node, address, hostName)
	}
	checkHost := func(when string) {
		b.Helper()
		for port, host := range places {
			for _, to := range []string{v4, v6, "127.0.0.1", "::1"} {
				if host != wildcard && host != to {
					continue
				}
				for _, from := range []*topology.Host{b.Node, b.Client, b.Net.Pod(1)} {
					if bed.Parse(to).IsLoopback() && from != b.Node {
						continue
					}
					for _, network := range []string{"tcp", "udp"} {
						if network == "udp" && host == wildcard && from == b.Net.Pod(1) {
							continue // the wildcard socket would reply from another source address
						}
						if a, err := bed.Ask(from, network, bed.HostPort(to, port)); err != nil || a.Pod != hostName {
							b.Errorf("%s: %s %s from %s: %q, %v, want the server of the host", when, network, bed.HostPort(to, port),
								from.Name, a.Pod, err)
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
				if a, err := bed.Ask(b.Client, network, bed.HostPort(ip, 80)); err != nil || a.Pod != bed.PodName(0) {
					b.Errorf("%s: %s %s: %q, %v", when, network, ip, a.Pod, err)
				}
			}
		}
	}
	checkHost("before")
	d := b.Start(b.Cart(0), m.Args...)
	checkHost("with a Service in the default mode")
	serves("Service in the default mode", bed.IP4, bed.IP6)

	flipped := b.Cart(0)
	flipped.Name, flipped.Kind, flipped.IPs, flipped.Mode = "flipped", "", []string{"10.96.0.11", "fd00:10:96::11"},
		"userspace"
	for i := range flipped.Ports {
		flipped.Ports[i].Node = 0
	}
	d.Apply(b.Cart(0).String() + flipped.String())
	checkHost("with a Service in userspace mode")
	serves("Service in userspace mode", flipped.IPs...)
	directIsRefused(b, v4)
	d.Stop()
	checkHost("after the daemon's end")
	if m.Kernel {
		serves("by the kernel after the daemon's end", bed.IP4, bed.IP6, flipped.IPs[0], flipped.IPs[1])
	}
}

// directIsRefused connects directly to the daemon's listeners in the range of proxy ports: they refuse.
func directIsRefused(b *bed.Bed, node string) {
	b.Helper()
	refused := 0
	for _, network := range []string{"tcp", "udp"} {
		for port := 11000; port < 11020; port++ {
			_, err := bed.Ask(b.Client, network, bed.HostPort(node, port))
			if errors.Is(err, syscall.ECONNREFUSED) && listensThere(b, network, port) {
				refused++
			} else if err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
				b.Errorf("%s port %d of the proxy port range: %v", network, port, err)
			}
		}
	}
	if refused < 2 {
		b.Errorf("%d listeners of the daemon refuse direct connections, want at least one per protocol", refused)
	}
}

// listensThere tells whether the daemon has an IPv4 socket at the port.
func listensThere(b *bed.Bed, network string, port int) bool {
	b.Helper()
	return strings.Contains(b.On(b.Node, "cat", "/proc/net/"+network), fmt.Sprintf(": 00000000:%04X 00000000:0000 ", port))
}

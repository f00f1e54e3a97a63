package traffic

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// Some network plugins (Calico, Cilium) give the node's ends of pods' links no address: with IPv6 they then have a
// link-local one alone, and portals lead there.
func TestAPodBehindALinkLocalGateway(t *testing.T) {
	bed.NeedsLinux(t, "the writers and the engines are of Linux")
	for name, args := range map[string][]string{
		"epoll": nil, "goroutine": {"--engine=goroutine"}, "transparent": {"--client-address=transparent"},
		"nftables": {"--writer=nftables"},
	} {
		t.Run(name, func(t *testing.T) {
			b := bed.New(t)
			client := b.Net.Pod(1)
			gateway := onlyLinkLocal(b, "pod1")
			b.On(client, "ip", "-6", "route", "replace", "default", "via", gateway.String(), "dev", "eth0")
			b.ServePods(0)
			d := b.Start(b.Cart(0), args...)
			for _, network := range []string{"tcp", "udp"} {
				for _, to := range []string{bed.HostPort(bed.IP6, 80), bed.HostPort(b.Node.IPv6.String(), bed.NodePort)} {
					answer, err := bed.Ask(client, network, to)
					if err != nil || answer.Pod != "pod0" {
						t.Errorf("%s to %s: answered by %q, want pod0: %v", network, to, answer.Pod, err)
						continue
					}
					if network == "udp" {
						continue // its session lasts
					}
					if r := d.RecordOf(answer); r.OriginalDst != to {
						t.Errorf("%s to %s: recorded as %s", network, to, r)
					}
				}
			}
		})
	}
}

// onlyLinkLocal takes the other IPv6 addresses of the node's end of a link away, and returns the one that is left.
func onlyLinkLocal(b *bed.Bed, link string) netip.Addr {
	b.Helper()
	b.On(b.Node, "ip", "-6", "addr", "flush", "dev", link, "scope", "global")
	for _, line := range strings.Split(b.On(b.Node, "ip", "-6", "-o", "addr", "show", "dev", link), "\n") {
		for _, word := range strings.Fields(line) {
			if p, err := netip.ParsePrefix(word); err == nil && p.Addr().IsLinkLocalUnicast() {
				return p.Addr()
			}
		}
	}
	b.Fatalf("%s has no link-local address", link)
	return netip.Addr{}
}

// With addresses of the node to lead to, the interface of a pod needs none of either family.
func TestAPodBehindAGatewayWithoutAddresses(t *testing.T) {
	bed.NeedsLinux(t, "the writers are of Linux")
	for _, writer := range []string{"iptables", "nftables"} {
		t.Run(writer, func(t *testing.T) {
			b := bed.New(t)
			client := b.Net.Pod(1)
			gateway := onlyLinkLocal(b, "pod1")
			b.On(b.Node, "ip", "-4", "addr", "flush", "dev", "pod1")
			b.Must(b.Node.Sysctl("ipv4/conf/pod1/proxy_arp", "1"))
			b.On(b.Node, "ip", "route", "replace", client.IPv4.String(), "dev", "pod1")
			b.On(client, "ip", "-6", "route", "replace", "default", "via", gateway.String(), "dev", "eth0")
			b.On(client, "ip", "route", "replace", "169.254.1.1", "dev", "eth0", "scope", "link")
			b.On(client, "ip", "route", "replace", "default", "via", "169.254.1.1", "dev", "eth0")
			b.ServePods(0)
			b.Start(b.Cart(0), "--writer="+writer, "--node-ip="+b.Node.IPv4.String()+","+b.Node.IPv6.String())
			for _, network := range []string{"tcp", "udp"} {
				for _, ip := range []string{bed.IP4, bed.IP6} {
					answer, err := bed.Ask(client, network, bed.HostPort(ip, 80))
					if err != nil || answer.Pod != "pod0" {
						t.Errorf("%s to %s: answered by %q, want pod0: %v", network, ip, answer.Pod, err)
					}
				}
			}
		})
	}
}

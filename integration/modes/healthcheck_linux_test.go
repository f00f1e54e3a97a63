package modes

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// On a host whose INPUT drops, by its policy or a last rule, load balancers reach the health-check port of a Service as
// long as there is one, and no other port. nftables has no means for that: a packet passes the rules of all tables.
func TestHealthCheckPortOfAHostThatDrops(t *testing.T) {
	type mode struct {
		variant []string // of iptables; none: the default
		args    []string
	}
	modes := map[string]mode{
		"userspace": {}, "iptables": {args: []string{"--proxy-mode=iptables", bed.PodRanges}},
		"legacy": {[]string{"legacy"}, []string{"--proxy-mode=iptables", "--iptables-variant=legacy", bed.PodRanges}},
	}
	if bed.InVM {
		modes = map[string]mode{"ipvs": {args: []string{"--proxy-mode=ipvs", bed.PodRanges}}}
	}
	for name, m := range modes {
		t.Run(name, func(t *testing.T) {
			infix := ""
			for _, v := range m.variant {
				infix = "-" + v
			}
			b := bed.New(t, "iptables"+infix)
			b.ServePods(0)
			dropInput(b, infix)
			before := b.Rules(m.variant...)
			const port = 32123
			cart := b.Cart(0)
			cart.Kind, cart.Balancer = "LoadBalancer", []string{bed.Balancer4}
			local := strings.Replace(cart.String(), "spec:\n", fmt.Sprintf(
				"spec:\n  externalTrafficPolicy: Local\n  healthCheckNodePort: %d\n", port), 1)
			d := b.Start(local, m.args...)
			for _, host := range []string{b.Node.IPv4.String(), b.Node.IPv6.String()} {
				b.Eventually("an answer at "+host, func() bool { return checked(b.Client, host, port) })
				if checked(b.Client, host, 10256) {
					t.Error("another port is open")
				}
			}
			d.Apply(b.Cart(0))
			for _, host := range []string{b.Node.IPv4.String(), b.Node.IPv6.String()} {
				if _, err := bed.Dial(bed.SilenceTimeout, b.Client, "tcp", bed.HostPort(host, port)); err == nil ||
					strings.Contains(err.Error(), "refused") {
					t.Errorf("%s: %v once the Service has no such port, want silence", host, err)
				}
			}
			if bed.InVM {
				return // what cleanup removes is the same chains, and commands take half a minute there
			}
			d.Apply(local)
			d.Stop()
			b.On(b.Node, bed.Portald, "cleanup")
			if after := b.Rules(m.variant...); after != before {
				t.Errorf("cleanup: before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// dropInput has IPv4 drop by policy, and IPv6 reject by a last rule.
func dropInput(b *bed.Bed, infix string) {
	b.Helper()
	for _, command := range []string{"iptables" + infix, "ip6tables" + infix} {
		b.On(b.Node, command, "-A", "INPUT", "-i", "lo", "-j", "ACCEPT")
		b.On(b.Node, command, "-A", "INPUT", "-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "-j", "ACCEPT")
	}
	b.On(b.Node, "iptables"+infix, "-P", "INPUT", "DROP")
	b.On(b.Node, "ip6tables"+infix, "-A", "INPUT", "-p", "ipv6-icmp", "-j", "ACCEPT") // neighbour discovery
	b.On(b.Node, "ip6tables"+infix, "-A", "INPUT", "-j", "DROP")
}

// checked asks a health-check port as a load balancer does.
func checked(from *topology.Host, host string, port int) bool {
	c, err := bed.Dial(bed.SilenceTimeout, from, "tcp", bed.HostPort(host, port))
	if err != nil {
		return false
	}
	defer c.Close()
	if _, err := c.Write([]byte("GET /healthz HTTP/1.0\r\n\r\n")); err != nil {
		return false
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

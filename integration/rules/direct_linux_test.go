package rules

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// proxyPort returns the proxy ports of cart for each family, read from the node's rules.
func proxyPort(b *bed.Bed, protocol string) (v4, v6 int) {
	b.Helper()
	var found []int
	for line := range strings.Lines(b.Rules()) {
		if strings.Contains(line, "ClusterIP\"") && strings.Contains(line, "-p "+protocol+" ") {
			if _, to, ok := strings.Cut(line, "--to-ports "); ok {
				n, err := strconv.Atoi(strings.TrimSpace(to))
				if err != nil {
					b.Fatal(err)
				}
				found = append(found, n)
			}
		}
	}
	if len(found) != 2 {
		b.Fatalf("proxy ports of %s: %v, want one per family", protocol, found)
	}
	return found[0], found[1]
}

func TestDirectConnectionToTheProxyPort(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	b.Start(b.Cart(0))
	for _, network := range []string{"tcp", "udp"} {
		v4, v6 := proxyPort(b, network)
		for from, addresses := range map[*topology.Host][]string{
			b.Client: {bed.HostPort(b.Node.IPv4.String(), v4), bed.HostPort(b.Node.IPv6.String(), v6)},
			b.Node: {bed.HostPort("127.0.0.1", v4), bed.HostPort("::1", v6), bed.HostPort(b.Node.IPv4.String(), v4),
				bed.HostPort(b.Node.IPv6.String(), v6)},
			b.Net.Pod(1): {bed.HostPort(b.Node.IPv4.String(), v4), bed.HostPort(b.Node.IPv6.String(), v6)},
		} {
			for _, to := range addresses {
				if a, err := bed.Ask(from, network, to); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("%s %s from %s: %q, %v, want a refusal", network, to, from.Name, a.Pod, err)
				}
			}
		}
	}
}

// A foreign rule redirects to a proxy port: the flow is translated, but its original destination is no frontend.
func TestForeignRedirectToTheProxyPort(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	for _, network := range []string{"tcp", "udp"} {
		v4, v6 := proxyPort(b, network)
		for command, port := range map[string]int{"iptables": v4, "ip6tables": v6} {
			b.On(b.Node, command, "-t", "nat", "-I", "PREROUTING", "-p", network, "--dport", "7777", "-j", "REDIRECT",
				"--to-ports", strconv.Itoa(port))
		}
		for _, addr := range []string{b.Node.IPv4.String(), b.Node.IPv6.String()} {
			a, err := bed.AskWithin(time.Second, b.Client, network, bed.HostPort(addr, 7777))
			if err == nil {
				t.Errorf("%s %s: answered by %s, want no answer", network, addr, a.Pod)
			}
			if network == "tcp" && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("tcp %s: %v, want a reset", addr, err)
			}
			d.RecordWhere(fmt.Sprint("of a flow that a foreign rule redirected: ", network, addr), func(r bed.Record) bool {
				return r.Outcome == "not_a_portal" && r.Protocol == network && r.OriginalDst == bed.HostPort(addr, 7777) &&
					r.Portal == "" && r.Endpoint == ""
			})
		}
	}
}

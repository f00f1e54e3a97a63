package integration

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/topology"
)

// mode is one pair of who carries and who writes the rules, as flags ask for it.
type mode struct {
	name   string
	kernel bool // Services are carried by the kernel unless they say otherwise
	args   []string
}

// podRanges tell portald who is a pod.
const podRanges = "--cluster-cidr=10.244.0.0/16,fd00:10:244::/48"

// modes are all that the kernel has which the tests run on.
func modes() []mode {
	if inGuest {
		return []mode{
			{"userspace by IPVS", false, []string{"--writer=ipvs", podRanges}},
			{"IPVS", true, []string{"--proxy-mode=ipvs", podRanges}},
		}
	}
	return []mode{
		{"userspace by iptables", false, nil},
		{"userspace by nftables", false, []string{"--writer=nftables"}},
		{"iptables", true, []string{"--proxy-mode=iptables", podRanges}},
		{"nftables", true, []string{"--proxy-mode=nftables", "--nodeport-addresses=0.0.0.0/0,::/0", podRanges}},
	}
}

// eachMode runs a test in every mode, each in a network of its own.
func eachMode(t *testing.T, test func(b *bed, m mode)) {
	for _, m := range modes() {
		t.Run(m.name, func(t *testing.T) { test(newBed(t), m) })
	}
}

// way is one way to reach a service port.
type way struct {
	mode    string
	network string
	to      string
	portal  string
	from    *topology.Host
	served  bool
}

func (w way) String() string {
	_, host, _ := strings.Cut(w.from.Name, "-")
	return fmt.Sprintf("%s/%s/%s/%s from %s", w.mode, w.network, w.portal, w.to, host)
}

const (
	allowed4, allowed6 = "203.0.113.10", "fd00:203::10"
	outside4, outside6 = "198.51.100.7", "fd00:51::7"
	balancer4          = "198.51.100.100"
	balancer6          = "fd00:51::100"
)

// ways lists all: every protocol, family and frontend, from a client, from the node itself and from a pod, which is an
// endpoint of the Service too.
func (b *bed) ways(mode string) (out []way) {
	pod := b.net.Pod(0)
	for _, network := range []string{"tcp", "udp"} {
		add := func(portal, addr string, port int, served bool, from ...*topology.Host) {
			for _, h := range from {
				out = append(out, way{mode, network, at(addr, port), portal, h, served})
			}
		}
		everywhere := []*topology.Host{b.client, b.node, pod}
		for _, addr := range []string{ip4, ip6} {
			add("ClusterIP", addr, 80, true, everywhere...)
		}
		for _, h := range []netip.Addr{b.node.IPv4, b.node.IPv6} {
			add("NodePort", h.String(), nodePort, true, everywhere...)
		}
		for _, addr := range []string{"127.0.0.1", "::1"} {
			add("NodePort", addr, nodePort, true, b.node)
		}
		for _, addr := range []string{allowed4, allowed6} {
			add("ExternalIP", addr, 80, true, everywhere...)
		}
		for _, addr := range []string{outside4, outside6} {
			add("ExternalIP", addr, 80, false, b.client)
		}
		for _, addr := range []string{balancer4, balancer6} {
			add("LoadBalancerIP", addr, 80, true, everywhere...)
		}
	}
	return out
}

func TestMatrix(t *testing.T) { eachMode(t, (*bed).matrix) }

func (b *bed) matrix(m mode) {
	b.servePods(0, 1, 2)
	cart := b.cart(0, 1, 2)
	cart.kind = "LoadBalancer"
	cart.external = []string{allowed4, outside4, allowed6, outside6}
	cart.balancer = []string{balancer4, balancer6, ""}
	d := b.start(cart, append([]string{"--external-ip-cidrs", "203.0.113.0/24,fd00:203::/64"}, m.args...)...)
	answers := map[way][]answer{}
	for _, w := range b.ways(m.name) {
		answers[w] = b.walk(w, m.kernel)
	}
	if code := d.stop(); code != 0 { // UDP sessions end with it, and so have records
		b.Fatalf("portald ended with code %d", code)
	}
	byClient := map[string]record{}
	for _, r := range d.records() {
		byClient[r.Protocol+" "+r.Client+" "+r.OriginalDst] = r
	}
	for w, as := range answers {
		if m.kernel && !w.loopback() { // the kernel tells nobody
			continue
		}
		for _, a := range as {
			b.checkRecord(w, a, byClient[w.network+" "+a.client.String()+" "+w.to])
		}
	}
}

// loopback tells whether the way leads to a listener in every mode.
func (w way) loopback() bool { return netip.MustParseAddrPort(w.to).Addr().IsLoopback() }

// Of three endpoints drawn at random, one is missing after so many times once in 10^8 runs.
const draws = 48

// walk asks until every pod has answered, the asking pod itself among them: in userspace that is in turn.
func (b *bed) walk(w way, random bool) (out []answer) {
	b.Helper()
	if !w.served {
		if a, err := whoWithin(300*time.Millisecond, w.from, w.network, w.to); err == nil {
			b.Errorf("%s: answered by %s, want nobody", w, a.pod)
		}
		return nil
	}
	seen, most := map[string]bool{}, 3
	if random && !w.loopback() {
		most = draws
	}
	for n := 0; n < most && len(seen) < 3; n++ {
		a, err := who(w.from, w.network, w.to)
		if err != nil {
			b.Errorf("%s: %v", w, err)
			return out
		}
		seen[a.pod] = true
		out = append(out, a)
	}
	if len(seen) != 3 {
		b.Errorf("%s: answered by %v, want each pod", w, out)
	}
	return out
}

func (b *bed) checkRecord(w way, a answer, r record) {
	b.Helper()
	service := map[string]string{"tcp": "shop/cart:http", "udp": "shop/cart:talk"}[w.network]
	ended := map[string]string{"tcp": "ok", "udp": "service_removed"}[w.network]
	switch {
	case r.ID == 0:
		b.Errorf("%s: no record of %s", w, a.client)
	case r.Service != service, r.Portal != w.portal, r.Pod != "shop/"+a.pod, r.Node != "here", r.Outcome != ended, len(r.Attempts) != 1:
		b.Errorf("%s: answered by %s, recorded as %s", w, a.pod, r)
	}
}

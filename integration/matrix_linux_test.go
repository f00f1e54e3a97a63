package integration

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/topology"
)

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

func TestMatrix(t *testing.T) {
	b := newBed(t)
	b.servePods(0, 1, 2)
	cart := b.cart(0, 1, 2)
	cart.kind = "LoadBalancer"
	cart.external = []string{allowed4, outside4, allowed6, outside6}
	cart.balancer = []string{balancer4, balancer6, ""}
	for _, mode := range []string{"userspace"} {
		d := b.start(cart, "--external-ip-cidrs", "203.0.113.0/24,fd00:203::/64")
		answers := map[way][]answer{}
		for _, w := range b.ways(mode) {
			answers[w] = b.walk(w)
		}
		if code := d.stop(); code != 0 { // UDP sessions end with it, and so have records
			t.Fatalf("portald ended with code %d", code)
		}
		byClient := map[string]record{}
		for _, r := range d.records() {
			byClient[r.Protocol+" "+r.Client+" "+r.OriginalDst] = r
		}
		for w, as := range answers {
			for _, a := range as {
				b.checkRecord(w, a, byClient[w.network+" "+a.client.String()+" "+w.to])
			}
		}
	}
}

// walk asks as often as there are pods: each answers once, the asking pod itself among them.
func (b *bed) walk(w way) (out []answer) {
	b.Helper()
	if !w.served {
		if a, err := whoWithin(300*time.Millisecond, w.from, w.network, w.to); err == nil {
			b.Errorf("%s: answered by %s, want nobody", w, a.pod)
		}
		return nil
	}
	seen := map[string]bool{}
	for range 3 {
		a, err := who(w.from, w.network, w.to)
		if err != nil {
			b.Errorf("%s: %v", w, err)
			return out
		}
		seen[a.pod] = true
		out = append(out, a)
	}
	if len(seen) != 3 {
		b.Errorf("%s: answered by %v, want each pod once", w, out)
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

package modes

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// route is one path from a client host to a service port.
type route struct {
	mode    string
	network string
	to      string
	portal  string
	from    *topology.Host
	served  bool
}

func (w route) String() string {
	_, host, _ := strings.Cut(w.from.Name, "-")
	return fmt.Sprintf("%s/%s/%s/%s from %s", w.mode, w.network, w.portal, w.to, host)
}

// routes lists every protocol, family and frontend, from a client, from the node and from a pod that is itself an
// endpoint of the Service.
func routes(b *bed.Bed, mode string) (out []route) {
	pod := b.Net.Pod(0)
	for _, network := range []string{"tcp", "udp"} {
		add := func(portal, addr string, port int, served bool, from ...*topology.Host) {
			for _, h := range from {
				out = append(out, route{mode, network, bed.HostPort(addr, port), portal, h, served})
			}
		}
		everywhere := []*topology.Host{b.Client, b.Node, pod}
		for _, addr := range []string{bed.IP4, bed.IP6} {
			add("ClusterIP", addr, 80, true, everywhere...)
		}
		for _, h := range []netip.Addr{b.Node.IPv4, b.Node.IPv6} {
			add("NodePort", h.String(), bed.NodePort, true, everywhere...)
		}
		for _, addr := range []string{"127.0.0.1", "::1"} {
			add("NodePort", addr, bed.NodePort, true, b.Node)
		}
		for _, addr := range []string{bed.Allowed4, bed.Allowed6} {
			add("ExternalIP", addr, 80, true, everywhere...)
		}
		for _, addr := range []string{bed.Outside4, bed.Outside6} {
			add("ExternalIP", addr, 80, false, b.Client)
		}
		for _, addr := range []string{bed.Balancer4, bed.Balancer6} {
			add("LoadBalancerIP", addr, 80, true, everywhere...)
		}
	}
	return out
}

func TestMatrix(t *testing.T) { bed.EachMode(t, matrix) }

func matrix(b *bed.Bed, m bed.Mode) {
	b.ServePods(0, 1, 2)
	cart := b.Cart(0, 1, 2)
	cart.Kind = "LoadBalancer"
	cart.External = []string{bed.Allowed4, bed.Outside4, bed.Allowed6, bed.Outside6}
	cart.Balancer = []string{bed.Balancer4, bed.Balancer6, ""}
	d := b.Start(cart, append([]string{"--external-ip-cidrs", "203.0.113.0/24,fd00:203::/64"}, m.Args...)...)
	answers := map[route][]bed.Answer{}
	for _, w := range routes(b, m.Name) {
		answers[w] = walk(b, w, m.Kernel)
	}
	if code := d.Stop(); code != 0 { // ends the UDP sessions, so that all have records
		b.Fatalf("portald ended with code %d", code)
	}
	byClient := map[string]bed.Record{}
	for _, r := range d.Records() {
		byClient[r.Protocol+" "+r.Client+" "+r.OriginalDst] = r
	}
	for w, as := range answers {
		if m.Kernel && !w.loopback() { // the kernel writes no records
			continue
		}
		for _, a := range as {
			checkRecord(b, w, a, byClient[w.network+" "+a.Client.String()+" "+w.to])
		}
	}
}

// loopback tells whether the destination is a loopback address, which portald serves by a listener in every mode.
func (w route) loopback() bool { return netip.MustParseAddrPort(w.to).Addr().IsLoopback() }

// draws is the number of random picks after which one of three endpoints is still missing once in 10^8 runs.
const draws = 48

// walk sends requests until every pod has answered, including the client pod itself. In userspace mode three requests
// suffice (round robin), in kernel modes the choice is random.
func walk(b *bed.Bed, w route, random bool) (out []bed.Answer) {
	b.Helper()
	if !w.served {
		if a, err := bed.AskWithin(300*time.Millisecond, w.from, w.network, w.to); err == nil {
			b.Errorf("%s: answered by %s, want no answer", w, a.Pod)
		}
		return nil
	}
	seen, most := map[string]bool{}, 3
	if random && !w.loopback() {
		most = draws
	}
	for n := 0; n < most && len(seen) < 3; n++ {
		a, err := bed.Ask(w.from, w.network, w.to)
		if err != nil {
			b.Errorf("%s: %v", w, err)
			return out
		}
		seen[a.Pod] = true
		out = append(out, a)
	}
	if len(seen) != 3 {
		b.Errorf("%s: answered by %v, want each pod", w, out)
	}
	return out
}

func checkRecord(b *bed.Bed, w route, a bed.Answer, r bed.Record) {
	b.Helper()
	service := map[string]string{"tcp": "shop/cart:http", "udp": "shop/cart:talk"}[w.network]
	ended := map[string]string{"tcp": "ok", "udp": "service_removed"}[w.network]
	switch {
	case r.ID == 0:
		b.Errorf("%s: no record of %s", w, a.Client)
	case r.Service != service, r.Portal != w.portal, r.Pod != "shop/"+a.Pod, r.Node != "here", r.Outcome != ended,
		len(r.Attempts) != 1:
		b.Errorf("%s: answered by %s, recorded as %s", w, a.Pod, r)
	}
}

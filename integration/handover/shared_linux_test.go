package handover

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// More service ports than there are proxy ports: those without one of their own share one, and each client still
// reaches its own Service, from pods and by node ports too, through restarts and while others come and go.
func TestServicePortsShareAProxyPort(t *testing.T) {
	const services, nodePort = 40, 30100
	b := bed.New(t)
	b.ServePods(0, 1)
	service := func(i int) bed.Service {
		s := b.Cart(i % 2)
		s.Name, s.Created = fmt.Sprint("s", i), fmt.Sprintf("2026-01-01T00:00:%02dZ", i)
		s.Kind, s.Balancer = "NodePort", nil
		s.IPs = []string{fmt.Sprintf("10.96.1.%d", i), fmt.Sprintf("fd00:10:96::1:%d", i)}
		s.Ports = []bed.Port{bed.NewPort("http", "TCP", 80, nodePort+i, bed.PodPort)}
		s.External = []string{"198.51.100.7"} // the oldest one's
		return s
	}
	manifests := func(without int) string {
		var all strings.Builder
		for i := range services {
			if i != without {
				fmt.Fprint(&all, service(i))
			}
		}
		return all.String()
	}
	d := b.Start(manifests(-1), "--proxy-port-range=12000-12031", "--external-ip-cidrs=198.51.100.0/24")
	log := d.Log.String()
	if !strings.Contains(log, "Service ports share proxy port 12") || strings.Contains(log, "no free proxy port") {
		t.Fatalf("nothing is shared, or something refused:\n%s", log)
	}
	ask := func(d *bed.Daemon, i int, address string) {
		t.Helper()
		a, err := bed.Ask(b.Client, "tcp", address)
		if err != nil || a.Pod != fmt.Sprint("pod", i%2) {
			t.Errorf("s%d at %s: answer of %q, %v", i, address, a.Pod, err)
			return
		}
		if i > 2 && i < services-2 { // a record takes a moment
			return
		}
		if r := d.RecordOf(a); r.Service != fmt.Sprintf("shop/s%d:http", i) || r.Outcome != "ok" {
			t.Errorf("s%d is recorded as %s", i, r)
		}
	}
	all := func(d *bed.Daemon, without int) {
		t.Helper()
		for i := range services {
			if i == without {
				continue
			}
			for _, ip := range service(i).IPs {
				ask(d, i, bed.HostPort(ip, 80))
			}
			ask(d, i, bed.HostPort(b.Node.IPv4.String(), nodePort+i))
		}
	}
	all(d, -1)
	ask(d, 0, bed.HostPort("198.51.100.7", 80))
	says := b.On(b.Node, bed.Portald, "explain", "shop/s39", "--socket", d.Socket)
	if !strings.Contains(says, ", which it shares with other service ports") {
		t.Errorf("explain does not say that a port is shared:\n%s", says)
	}
	var open []func() error
	for _, i := range []int{0, services - 2, services - 1} {
		c, r, _ := b.Open(bed.HostPort(service(i).IPs[0], 80))
		open = append(open, func() error { return bed.Echoes(c, r) })
	}
	next := d.Succeed()
	next.WaitReady()
	all(next, -1)
	next.Apply(manifests(services - 1))
	all(next, services-1)
	for i, alive := range open[:2] {
		if err := alive(); err != nil {
			t.Errorf("open connection %d: %v", i, err)
		}
	}
	if n := next.Metric(`portald_resource_used{resource="proxy_port_sharers"}`); n < 2*services-32-2 {
		t.Errorf("%v service ports share a proxy port", n)
	}
	if n := next.Metric(`portald_accept_errors_total`); n != 0 {
		t.Errorf("%v connections were refused for want of something", n)
	}
}

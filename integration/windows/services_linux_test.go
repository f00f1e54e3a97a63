package windows

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// addresses lists what portald has added to the node, in order.
func addresses(b *bed.Bed) (out []string) {
	b.Helper()
	for line := range strings.Lines(b.On(b.Node, "ip", "-o", "address", "show", "dev", bed.Device, "scope", "global")) {
		out = append(out, strings.Fields(line)[3])
	}
	return out
}

func wantAddresses(b *bed.Bed, want ...string) {
	b.Helper()
	b.Eventually(fmt.Sprintf("the addresses %v", want), func() bool {
		return fmt.Sprint(addresses(b)) == fmt.Sprint(want)
	})
}

// kill ends a daemon as a crash does.
func kill(d *bed.Daemon) {
	d.Signal(syscall.SIGKILL)
	d.Exit()
}

// A Service answers at each of its addresses, over TCP and UDP, each pod exactly in turn; the record says by which.
func TestEveryFrontend(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1, 2)
	cart := b.Cart(0, 1, 2)
	cart.Kind, cart.Balancer = "LoadBalancer", []string{bed.Balancer4, bed.Balancer6}
	cart.External = []string{bed.Allowed4}
	d := b.Start(cart, "--external-ip-cidrs=203.0.113.0/24")
	all := b.Frontends()
	all[b.Client] = append(all[b.Client], bed.HostPort(bed.Balancer4, 80), bed.HostPort(bed.Balancer6, 80),
		bed.HostPort(bed.Allowed4, 80))
	for from, frontends := range all {
		for _, to := range frontends {
			for _, network := range []string{"tcp", "udp"} {
				got := b.Tally(6, 1, from, network, to)
				if got["pod0"] != 2 || got["pod1"] != 2 || got["pod2"] != 2 {
					t.Errorf("%s %s from %s: %v, want 2 of each pod", network, to, from.Name, got)
				}
			}
		}
	}
	for to, kind := range map[string]string{
		bed.HostPort(bed.IP4, 80): "ClusterIP", bed.HostPort(bed.Balancer6, 80): "LoadBalancerIP",
		bed.HostPort(bed.Allowed4, 80): "ExternalIP", bed.HostPort(b.Node.IPv6.String(), bed.NodePort): "NodePort",
	} {
		r := d.RecordWhere("to "+to, func(r bed.Record) bool { return r.OriginalDst == to && r.Protocol == "tcp" })
		if r.Portal != kind || r.Outcome != "ok" || r.ClosedBy != "client" || !strings.HasPrefix(r.Pod, "shop/pod") {
			t.Errorf("to %s: %s, want a %s", to, r, kind)
		}
	}
}

// Two Services share an address, which goes with the last of them; an address of the node itself stays.
func TestSharedAddress(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	node := b.Node.IPv4.String()
	share := func(name string, port, pod int) bed.Service {
		return bed.Service{Name: name, Kind: "LoadBalancer", IPs: []string{fmt.Sprintf("10.96.1.%d", port)},
			Balancer: []string{bed.Balancer4}, External: []string{node}, Pods: b.Endpoints(pod),
			Ports: []bed.Port{bed.NewPort("http", "TCP", port, 0, bed.PodPort)}}
	}
	a, other := share("a", 80, 0), share("other", 81, 1)
	d := b.Start(a.String()+other.String(), "--external-ip-cidrs="+node+"/32")
	wantAddresses(b, "10.96.1.80/32", "10.96.1.81/32", bed.Balancer4+"/32")
	served := func(port int, pod string) {
		t.Helper()
		for _, ip := range []string{bed.Balancer4, node} {
			if got, err := bed.Ask(b.Client, "tcp", bed.HostPort(ip, port)); err != nil || got.Pod != pod {
				t.Errorf("%s:%d: %q, %v, want %s", ip, port, got.Pod, err, pod)
			}
		}
	}
	served(80, "pod0")
	served(81, "pod1")
	d.Apply(other)
	wantAddresses(b, "10.96.1.81/32", bed.Balancer4+"/32")
	served(81, "pod1")
	d.Apply(b.Simple("third", "10.96.1.90", 0))
	wantAddresses(b, "10.96.1.90/32")
	if out := b.On(b.Node, "ip", "address"); !strings.Contains(out, node+"/") {
		t.Errorf("the node has lost its own address:\n%s", out)
	}
}

// Changes of the node's addresses by others are followed: one that was taken away comes back, and a NodePort is served
// at an address that DHCP gives.
func TestAddressesThatChange(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	b.Start(b.Cart(0))
	wantAddresses(b, bed.IP4+"/32", bed.IP6+"/128")
	b.On(b.Node, "ip", "address", "del", bed.IP4+"/32", "dev", bed.Device)
	b.On(b.Node, "ip", "address", "add", "192.168.50.77/32", "dev", "client0")
	b.ServedBy(bed.IP4, "pod0")
	b.Eventually("the NodePort at the new address", func() bool {
		a, _ := bed.Ask(b.Client, "tcp", bed.HostPort("192.168.50.77", bed.NodePort))
		return a.Pod == "pod0"
	})
	b.On(b.Node, "ip", "address", "del", "192.168.50.77/32", "dev", "client0")
	if a, err := bed.Ask(b.Client, "tcp", bed.HostPort(b.Node.IPv4.String(), bed.NodePort)); a.Pod != "pod0" {
		t.Errorf("the NodePort at the other address: %v", err)
	}
}

// NodePorts and health checks are at the node's own addresses within nodePortAddresses, as they come: not at a
// Service's, though it is within them, and the node has it by portald.
func TestNodePortAddresses(t *testing.T) {
	const own, port = "203.0.113.9", 32123
	b := bed.New(t)
	b.ServePods(0)
	b.On(b.Client, "ip", "route", "add", own, "via", b.Node.IPv4.String())
	cart := b.Cart(0)
	cart.Kind, cart.Balancer = "LoadBalancer", []string{bed.Balancer4}
	b.Start(strings.Replace(cart.String(), "spec:\n", fmt.Sprintf(
		"spec:\n  externalTrafficPolicy: Local\n  healthCheckNodePort: %d\n", port), 1),
		"--nodeport-addresses=10.96.0.0/16,203.0.113.0/24")
	b.ServedBy(bed.IP4, "pod0")
	checked := func(host string) (int, error) {
		code, _, err := bed.Fetch(b.Client, bed.HostPort(host, port), "/")
		return code, err
	}
	if _, err := checked(b.Node.IPv4.String()); err == nil {
		t.Error("the health check is at an address outside of nodePortAddresses")
	}
	b.On(b.Node, "ip", "address", "add", own+"/32", "dev", "client0")
	b.Eventually("the NodePort and the health check at the new address", func() bool {
		code, _ := checked(own)
		a, _ := bed.Ask(b.Client, "tcp", bed.HostPort(own, bed.NodePort))
		return code == http.StatusOK && a.Pod == "pod0"
	})
	if _, err := checked(bed.IP4); err == nil { // the addresses were read since it came
		t.Error("the health check is at an address of a Service")
	}
	b.On(b.Node, "ip", "address", "del", own+"/32", "dev", "client0")
	b.On(b.Node, "ip", "address", "add", own+"/32", "dev", "client0")
	b.Eventually("the health check at the address that comes back", func() bool {
		code, _ := checked(own)
		return code == http.StatusOK
	})
}

// Addresses that a crash left are taken over where they are still wanted, and removed where not.
func TestCrash(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	kept, gone := b.Simple("kept", "10.96.1.1", 0), b.Simple("gone", "10.96.1.2", 0)
	d := b.Start(kept.String() + gone.String())
	wantAddresses(b, "10.96.1.1/32", "10.96.1.2/32")
	for range 2 {
		kill(d)
		wantAddresses(b, "10.96.1.1/32", "10.96.1.2/32")
		d = b.Start(kept.String() + gone.String())
		b.ServedBy("10.96.1.1", "pod0")
	}
	kill(d)
	d = b.Start(kept.String() + b.Simple("new", "10.96.1.3", 1).String())
	wantAddresses(b, "10.96.1.1/32", "10.96.1.3/32")
	b.ServedBy("10.96.1.1", "pod0")
	b.ServedBy("10.96.1.3", "pod1")
	kill(d)
	out, err := b.Try(b.Node, b.Line("cleanup")[0], b.Line("cleanup")[1:]...)
	if err != nil {
		t.Errorf("portald cleanup: %v\n%s", err, out)
	}
	wantAddresses(b)
}

// While pods come and go as in a rollout, no connection fails.
func TestRollout(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1, 2)
	d := b.Start(b.Cart(0, 1))
	stop := b.Load(bed.HostPort(bed.IP4, 80))
	for _, pods := range [][]int{{1, 2}, {2}, {0, 2}, {0}, {0, 1}, {1}, {1, 2}} {
		d.Apply(b.Cart(pods...))
		time.Sleep(300 * time.Millisecond)
	}
	count, failed := stop()
	if len(failed) > 0 || count["pod0"] == 0 || count["pod1"] == 0 || count["pod2"] == 0 {
		t.Errorf("answers %v, %d failures: %v", count, len(failed), failed)
	}
}

// A port that another program has is one frontend's trouble: all others are served, it is told, counted and tried
// again.
func TestPortInUse(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	taken := fmt.Sprintf("%s:%d", b.Node.IPv4, bed.NodePort)
	other := b.ServeAt(b.Node, taken, bed.NamesItself("other"))
	d := b.Start(b.Cart(0))
	d.ExpectErrors = true
	b.ServedBy(bed.IP4, "pod0")
	b.Eventually("the frontend to be counted", func() bool { return d.Metric("portald_frontends_failed") == 1 })
	if log := d.Log.String(); !strings.Contains(log, "Cannot serve a frontend") || !strings.Contains(log, taken) {
		t.Errorf("the log does not name %s", taken)
	}
	other.Stop()
	b.Eventually("the NodePort to be served", func() bool {
		a, _ := bed.Ask(b.Client, "tcp", taken)
		return a.Pod == "pod0" && d.Metric("portald_frontends_failed") == 0
	})
}

// Where nothing can be added, portald is not ready, says why, and goes on trying.
func TestNotElevated(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	b.Windows.Netsh.Faults.NotElevated = true
	d := b.Launch(nil, "--manifests", b.WriteManifest(bed.Manifest, b.Cart(0)))
	d.ExpectErrors = true
	b.Eventually("the reason in the log", func() bool { return strings.Contains(d.Log.String(), "elevation") })
	if code, _, err := d.Get("127.0.0.1:10256", "/healthz"); err == nil && code == 200 {
		t.Error("portald says that it is healthy")
	}
	b.Windows.Netsh.Faults.NotElevated = false
	d.WaitReady()
	b.ServedBy(bed.IP4, "pod0")
}

// Two Services that name each other's address as endpoint refuse their clients, and do not use the host up.
func TestServicesThatLeadToEachOther(t *testing.T) {
	b := bed.New(t)
	loop := func(name, ip, to string) bed.Service {
		return bed.Service{Name: name, IPs: []string{ip}, Pods: []bed.Endpoint{{V4: netip.MustParseAddr(to)}},
			Ports: []bed.Port{bed.NewPort("http", "TCP", 80, 0, 80), bed.NewPort("talk", "UDP", 80, 0, 80)}}
	}
	d := b.Start(loop("a", "10.96.1.1", "10.96.1.2").String() + loop("z", "10.96.1.2", "10.96.1.1").String())
	for _, network := range []string{"tcp", "udp"} {
		if a, err := bed.AskWithin(2*time.Second, b.Client, network, "10.96.1.1:80"); err == nil {
			t.Errorf("%s: answered by %q", network, a.Pod)
		}
	}
	r := d.RecordWhere("of the connection", func(r bed.Record) bool { return r.Service == "shop/a:http" })
	if r.Outcome != "dial_failed" || len(r.Attempts) == 0 || !strings.Contains(r.Attempts[0].Error, "itself listens") {
		t.Errorf("recorded as %s", r)
	}
	if n := len(d.Records()); n > 4 {
		t.Errorf("%d records of two clients", n)
	}
}

// Endpoints see the node's address, and so answer to it: clients on other hosts and on the node are served alike.
func TestClientsAddressInRecords(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	for _, from := range []*topology.Host{b.Client, b.Node, b.Net.Pod(1)} {
		a, err := bed.Ask(from, "tcp", bed.HostPort(bed.IP4, 80))
		if err != nil {
			t.Fatal(err)
		}
		if r := d.RecordOf(a); r.Client != a.Client.String() {
			t.Errorf("recorded as %s, want the client %s", r, a.Client)
		}
	}
}

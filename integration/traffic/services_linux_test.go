package traffic

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// refusedAtOnce checks that these frontends refuse connections immediately, because they have no endpoints.
func refusedAtOnce(b *bed.Bed, frontends map[*topology.Host][]string) {
	b.Helper()
	if bed.OnWindows {
		time.Sleep(100 * time.Millisecond) // a listener that closes accepts what the system has queued for it
	}
	for from, addresses := range frontends {
		for _, network := range []string{"tcp", "udp"} {
			for _, to := range addresses {
				began := time.Now()
				a, err := bed.Ask(from, network, to)
				refused := errors.Is(err, syscall.ECONNREFUSED) ||
					bed.OnWindows && errors.Is(err, syscall.ECONNRESET) // by portald: Windows would let clients wait
				if !refused || time.Since(began) > time.Second {
					b.Errorf("%s %s from %s: %v, %v after %v, want a refusal at once", network, to, from.Name, a, err,
						time.Since(began))
				}
			}
		}
	}
}

func TestEndpointsComeAndGo(t *testing.T) {
	b := bed.New(t)
	b.ServePods(1)
	d := b.Start(b.Cart())
	refusedAtOnce(b, b.Frontends())
	for range 2 {
		d.Apply(b.Cart(1))
		for from, addresses := range b.Frontends() {
			for _, to := range addresses {
				for _, network := range []string{"tcp", "udp"} {
					if a, err := bed.Ask(from, network, to); err != nil || a.Pod != "pod1" {
						t.Errorf("%s %s from %s: %v, %v, want pod1", network, to, from.Name, a.Pod, err)
					}
				}
			}
		}
		d.Apply(b.Cart())
		refusedAtOnce(b, b.Frontends())
	}
}

// A pod that is not ready gets no connections. A terminating pod gets them only while it serves and no pod is ready.
func TestConditions(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1, 2)
	cart := b.Cart(0, 1, 2)
	cart.Pods[0].Conditions = "ready: false, serving: true, terminating: true"
	cart.Pods[2].Conditions = "ready: false, serving: false, terminating: false"
	d := b.Start(cart)
	if got := b.Tally(6, 1, b.Client, "tcp", bed.HostPort(bed.IP4, 80)); got["pod1"] != 6 {
		t.Errorf("with pod1 as the only ready pod: %v, want pod1 alone", got)
	}
	cart.Pods[1].Conditions = "ready: false, serving: false, terminating: true"
	d.Apply(cart)
	if got := b.Tally(6, 1, b.Client, "tcp", bed.HostPort(bed.IP4, 80)); got["pod0"] != 6 {
		t.Errorf("with pod0 terminating and serving, no pod ready: %v, want pod0 alone", got)
	}
}

// The Service has named ports with different targets, one number for both protocols, and endpoints in two slices.
func TestPortsOfOneService(t *testing.T) {
	b := bed.New(t)
	b.Serve(b.Net.Pod(0), 9001, bed.NamesItself("first"))
	b.Serve(b.Net.Pod(0), 9002, bed.NamesItself("second"))
	b.ServeUDP(b.Net.Pod(0), 9003, "third")
	many := bed.Service{Name: "many", IPs: []string{"10.96.7.7"}, Pods: b.Endpoints(0), Ports: []bed.Port{
		bed.NewPort("a", "TCP", 80, 0, 9001), bed.NewPort("b", "TCP", 81, 0, 9002), bed.NewPort("c", "UDP", 81, 0, 9003),
	}}
	twice := strings.Replace(many.Slice("IPv4", bed.Endpoint.Addr4), "name: many-ipv4", "name: many-again", 1)
	b.Start(many.String() + twice)
	for to, want := range map[string]string{"tcp 80": "first", "tcp 81": "second", "udp 81": "third"} {
		network, number, _ := strings.Cut(to, " ")
		n, _ := strconv.Atoi(number)
		if a, err := bed.Ask(b.Client, network, bed.HostPort("10.96.7.7", n)); err != nil || a.Pod != want {
			t.Errorf("%s: %q, %v, want %s", to, a.Pod, err, want)
		}
	}
	if got := strings.Count(b.Rules(), "shop/many:"); got != 3 && !bed.OnWindows {
		t.Errorf("%d rules for three ports", got)
	}
}

// Services that cannot be served are skipped, mistakes are logged, and other Services are not affected.
func TestServicesThatAreNotServed(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	headless := bed.Service{Name: "headless", IPs: []string{"None"},
		Ports: []bed.Port{bed.NewPort("http", "TCP", 80, 0, bed.PodPort)}, Pods: b.Endpoints(0)}
	elsewhere := "---\napiVersion: v1\nkind: Service\nmetadata: {name: elsewhere, namespace: shop}\n" +
		"spec: {type: ExternalName, externalName: example.org}\n"
	sctp := bed.Service{Name: "sctp", IPs: []string{"10.96.7.8"}, Ports: []bed.Port{bed.NewPort("s", "SCTP", 80, 0, 1),
		bed.NewPort("t", "TCP", 81, 0, bed.PodPort)}, Pods: b.Endpoints(0)}
	bad := bed.Service{Name: "bad", IPs: []string{"10.96.7.9"},
		Ports: []bed.Port{bed.NewPort("http", "TCP", 80, 0, bed.PodPort)}, Pods: b.Endpoints(0)}
	for _, addr := range []string{"127.0.0.1", "169.254.169.254", "224.0.0.1", "0.0.0.0"} {
		e := b.Endpoints(0)[0]
		e.V4 = bed.Parse(addr)
		e.V6 = bed.Parse("fe80::1")
		bad.Pods = append(bad.Pods, e)
	}
	d := b.Start(headless.String() + elsewhere + sctp.String() + bad.String() + b.Cart(0).String())
	for _, to := range []string{bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80), bed.HostPort("10.96.7.8", 81)} {
		if a, err := bed.Ask(b.Client, "tcp", to); err != nil || a.Pod != "pod0" {
			t.Errorf("%s: %q, %v, want pod0", to, a.Pod, err)
		}
	}
	if got := b.Tally(8, 1, b.Client, "tcp", bed.HostPort("10.96.7.9", 80)); got["pod0"] != 8 {
		t.Errorf("with four invalid endpoint addresses: %v, want pod0 alone", got)
	}
	if rules := b.Rules(); strings.Contains(rules, "headless") || strings.Contains(rules, "elsewhere") {
		t.Errorf("rules for a Service that is not served:\n%s", rules)
	}
	for _, want := range []string{"service shop/sctp: spec.ports[0].protocol",
		"endpointslice shop/bad-ipv4: endpoints[1].addresses[0]"} {
		if !strings.Contains(d.Log.String(), want) {
			t.Errorf("the log does not contain %q", want)
		}
	}
	if bed.OnWindows { // which cannot refuse SCTP, and whose commands tests cannot ask
		return
	}
	if rules := b.Rules(); !strings.Contains(rules, `-p sctp -m comment --comment "shop/sctp:s ClusterIP" -m sctp `+
		`--dport 80 -j REJECT`) {
		t.Errorf("clients of SCTP are not refused:\n%s", rules)
	}
	if list := b.On(b.Node, bed.Portald, "services", "--socket", d.Socket); !strings.Contains(list,
		"userspace does not carry sctp") {
		t.Errorf("the list of Services does not say that SCTP is not carried:\n%s", list)
	}
}

// loadBalancerSourceRanges restrict the clients of the load balancer IP; other clients are reset. The other addresses
// of the Service are not restricted.
func TestSourceRanges(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	cart := b.Cart(0)
	cart.Kind, cart.Balancer = "LoadBalancer", []string{bed.Balancer4}
	docs := strings.Replace(cart.String(), "spec:\n",
		"spec:\n  loadBalancerSourceRanges: ["+b.Net.Pod(0).IPv4.String()+"/32]\n", 1)
	d := b.Start(docs)
	if a, err := bed.Ask(b.Net.Pod(0), "tcp", bed.HostPort(bed.Balancer4, 80)); err != nil || a.Pod != "pod0" {
		t.Errorf("from inside the ranges: %q, %v", a.Pod, err)
	}
	if a, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.Balancer4, 80)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("from outside the ranges: %q, %v, want a reset", a.Pod, err)
	}
	if r := d.RecordWhere("of the refusal",
		func(r bed.Record) bool { return r.Outcome == "source_range" }); r.Portal != "LoadBalancerIP" || r.Endpoint != "" {
		t.Errorf("recorded as %s", r)
	}
	if a, err := bed.AskWithin(bed.SilenceTimeout, b.Client, "udp", bed.HostPort(bed.Balancer4, 80)); err == nil {
		t.Errorf("from outside the ranges over UDP: answered by %q", a.Pod)
	}
	if a, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80)); err != nil || a.Pod != "pod0" {
		t.Errorf("at the ClusterIP: %q, %v", a.Pod, err)
	}
}

// If two Services claim one address, the older one is served. The other one gets the address when the older is removed.
func TestTwoServicesClaimOneAddress(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	one := func(name, created string, pod int) bed.Service {
		return bed.Service{Name: name, Created: created, IPs: []string{bed.IP4},
			Ports: []bed.Port{bed.NewPort("http", "TCP", 80, 0, bed.PodPort)}, Pods: b.Endpoints(pod)}
	}
	young, old := one("a-young", "2026-02-02T00:00:00Z", 0), one("z-old", "2026-01-01T00:00:00Z", 1)
	serves := func(want string) {
		t.Helper()
		if got := b.Tally(4, 1, b.Client, "tcp", bed.HostPort(bed.IP4, 80)); got[want] != 4 {
			t.Errorf("answered by %v, want %s alone", got, want)
		}
	}
	d := b.Start(young)
	serves("pod0")
	d.Apply(young.String() + old.String())
	serves("pod1")
	if log := d.Log.String(); !strings.Contains(log, "claim one address") ||
		!strings.Contains(log, "service=\"shop/a-young:http\"") {
		t.Errorf("the log does not name the Service that lost the address:\n%s", log)
	}
	d.Apply(young)
	serves("pod0")
}

package integration

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/topology"
)

// refusedAtOnce asks at all that leads to cart, which has no endpoints, or is to be gone from the places given.
func (b *bed) refusedAtOnce(places map[*topology.Host][]string) {
	b.Helper()
	for from, addresses := range places {
		for _, network := range []string{"tcp", "udp"} {
			for _, to := range addresses {
				began := time.Now()
				a, err := who(from, network, to)
				if !errors.Is(err, syscall.ECONNREFUSED) || time.Since(began) > time.Second {
					b.Errorf("%s %s from %s: %v, %v after %v, want a refusal at once", network, to, from.Name, a, err, time.Since(began))
				}
			}
		}
	}
}

// places are the addresses of cart, by who asks there.
func (b *bed) places() map[*topology.Host][]string {
	all := []string{at(ip4, 80), at(ip6, 80), at(b.node.IPv4.String(), nodePort), at(b.node.IPv6.String(), nodePort)}
	return map[*topology.Host][]string{
		b.client: all, b.net.Pod(0): all,
		b.node: append([]string{at("127.0.0.1", nodePort), at("::1", nodePort)}, all...),
	}
}

func TestEndpointsComeAndGo(t *testing.T) {
	b := newBed(t)
	b.servePods(1)
	d := b.start(b.cart())
	b.refusedAtOnce(b.places())
	for range 2 {
		d.apply(b.cart(1))
		for from, addresses := range b.places() {
			for _, to := range addresses {
				for _, network := range []string{"tcp", "udp"} {
					if a, err := who(from, network, to); err != nil || a.pod != "pod1" {
						t.Errorf("%s %s from %s: %v, %v, want pod1", network, to, from.Name, a.pod, err)
					}
				}
			}
		}
		d.apply(b.cart())
		b.refusedAtOnce(b.places())
	}
}

// A pod that never was ready is not asked; one that is on its way out is, while it serves and nobody else does.
func TestConditions(t *testing.T) {
	b := newBed(t)
	b.servePods(0, 1, 2)
	cart := b.cart(0, 1, 2)
	cart.pods[0].conditions = "ready: false, serving: true, terminating: true"
	cart.pods[2].conditions = "ready: false, serving: false, terminating: false"
	d := b.start(cart)
	if got := b.tally(6, 1, b.client, "tcp", at(ip4, 80)); got["pod1"] != 6 {
		t.Errorf("beside two that are not ready, pod1 answered %v, want all 6", got)
	}
	cart.pods[1].conditions = "ready: false, serving: false, terminating: true"
	d.apply(cart)
	if got := b.tally(6, 1, b.client, "tcp", at(ip4, 80)); got["pod0"] != 6 {
		t.Errorf("with one left that terminates and serves, %v answered, want pod0 alone", got)
	}
}

// Several named ports whose targets differ, one number on both protocols, and endpoints that stand in two slices.
func TestPortsOfOneService(t *testing.T) {
	b := newBed(t)
	b.serve(b.net.Pod(0), 9001, namesItself("first"))
	b.serve(b.net.Pod(0), 9002, namesItself("second"))
	b.serveUDP(b.net.Pod(0), 9003, "third")
	many := svc{name: "many", ips: []string{"10.96.7.7"}, pods: b.endpoints(0), ports: []port{
		{"a", "TCP", 80, 0, 9001}, {"b", "TCP", 81, 0, 9002}, {"c", "UDP", 81, 0, 9003},
	}}
	twice := strings.Replace(many.slice("IPv4", endpoint.addr4), "name: many-ipv4", "name: many-again", 1)
	b.start(many.String() + twice)
	for to, want := range map[string]string{"tcp 80": "first", "tcp 81": "second", "udp 81": "third"} {
		network, number, _ := strings.Cut(to, " ")
		n, _ := strconv.Atoi(number)
		if a, err := who(b.client, network, at("10.96.7.7", n)); err != nil || a.pod != want {
			t.Errorf("%s: %q, %v, want %s", to, a.pod, err, want)
		}
	}
	if got := strings.Count(b.rules(), "shop/many:"); got != 3 {
		t.Errorf("%d rules for three ports", got)
	}
}

// What is not to be served is passed over, said where it is a mistake, and in nobody's way.
func TestServicesThatAreNotServed(t *testing.T) {
	b := newBed(t)
	b.servePods(0)
	headless := svc{name: "headless", ips: []string{"None"}, ports: []port{{"http", "TCP", 80, 0, podPort}}, pods: b.endpoints(0)}
	elsewhere := "---\napiVersion: v1\nkind: Service\nmetadata: {name: elsewhere, namespace: shop}\n" +
		"spec: {type: ExternalName, externalName: example.org}\n"
	sctp := svc{name: "sctp", ips: []string{"10.96.7.8"}, ports: []port{{"s", "SCTP", 80, 0, 1}, {"t", "TCP", 81, 0, podPort}}, pods: b.endpoints(0)}
	bad := svc{name: "bad", ips: []string{"10.96.7.9"}, ports: []port{{"http", "TCP", 80, 0, podPort}}, pods: b.endpoints(0)}
	for _, addr := range []string{"127.0.0.1", "169.254.169.254", "224.0.0.1", "0.0.0.0"} {
		e := b.endpoints(0)[0]
		e.v4 = parse(addr)
		e.v6 = parse("fe80::1")
		bad.pods = append(bad.pods, e)
	}
	d := b.start(headless.String() + elsewhere + sctp.String() + bad.String() + b.cart(0).String())
	for _, to := range []string{at(ip4, 80), at(ip6, 80), at("10.96.7.8", 81)} {
		if a, err := who(b.client, "tcp", to); err != nil || a.pod != "pod0" {
			t.Errorf("%s: %q, %v, want pod0", to, a.pod, err)
		}
	}
	if got := b.tally(8, 1, b.client, "tcp", at("10.96.7.9", 80)); got["pod0"] != 8 {
		t.Errorf("with four endpoints nobody may have, %v answered, want pod0 alone", got)
	}
	if rules := b.rules(); strings.Contains(rules, "headless") || strings.Contains(rules, "elsewhere") {
		t.Errorf("rules for a Service that is not served:\n%s", rules)
	}
	for _, want := range []string{"service shop/sctp: spec.ports[0].protocol", "endpointslice shop/bad-ipv4: endpoints[1].addresses[0]"} {
		if !strings.Contains(d.log.String(), want) {
			t.Errorf("the log does not say %q", want)
		}
	}
}

// loadBalancerSourceRanges say who may use the load balancer's address; the others are reset. They say nothing about the
// other addresses.
func TestSourceRanges(t *testing.T) {
	b := newBed(t)
	b.servePods(0)
	cart := b.cart(0)
	cart.kind, cart.balancer = "LoadBalancer", []string{balancer4}
	docs := strings.Replace(cart.String(), "spec:\n", "spec:\n  loadBalancerSourceRanges: ["+b.net.Pod(0).IPv4.String()+"/32]\n", 1)
	d := b.start(docs)
	if a, err := who(b.net.Pod(0), "tcp", at(balancer4, 80)); err != nil || a.pod != "pod0" {
		t.Errorf("from inside the ranges: %q, %v", a.pod, err)
	}
	if a, err := who(b.client, "tcp", at(balancer4, 80)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("from outside the ranges: %q, %v, want a reset", a.pod, err)
	}
	if r := d.recordWhere("of the refusal", func(r record) bool { return r.Outcome == "source_range" }); r.Portal != "LoadBalancerIP" || r.Endpoint != "" {
		t.Errorf("recorded as %s", r)
	}
	if a, err := whoWithin(patience/10, b.client, "udp", at(balancer4, 80)); err == nil {
		t.Errorf("from outside the ranges over UDP: answered by %q", a.pod)
	}
	if a, err := who(b.client, "tcp", at(ip4, 80)); err != nil || a.pod != "pod0" {
		t.Errorf("at the ClusterIP: %q, %v", a.pod, err)
	}
}

// Of two Services with one address the older holds it, and the other gets it when the older goes.
func TestTwoServicesClaimOneAddress(t *testing.T) {
	b := newBed(t)
	b.servePods(0, 1)
	one := func(name, created string, pod int) svc {
		return svc{name: name, created: created, ips: []string{ip4}, ports: []port{{"http", "TCP", 80, 0, podPort}}, pods: b.endpoints(pod)}
	}
	young, old := one("a-young", "2026-02-02T00:00:00Z", 0), one("z-old", "2026-01-01T00:00:00Z", 1)
	serves := func(want string) {
		t.Helper()
		if got := b.tally(4, 1, b.client, "tcp", at(ip4, 80)); got[want] != 4 {
			t.Errorf("answered by %v, want %s alone", got, want)
		}
	}
	d := b.start(young)
	serves("pod0")
	d.apply(young.String() + old.String())
	serves("pod1")
	if said := d.log.String(); !strings.Contains(said, "claim one address") || !strings.Contains(said, "service=\"shop/a-young:http\"") {
		t.Errorf("the log does not name who lost the address:\n%s", said)
	}
	d.apply(young)
	serves("pod0")
}

package metrics

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/recordtest"
)

var at = recordtest.Endpoint

// lacking returns the values of the gauges: internal and external of IPv4, then of IPv6.
func lacking(m *Metrics) string {
	var out []float64
	for _, g := range m.policies.each {
		out = append(out, testutil.ToFloat64(g))
	}
	return fmt.Sprint(out)
}

func TestNoLocalEndpoints(t *testing.T) {
	there, here := at("10.1.0.1:80", "ready"), at("10.1.1.1:80", "ready", "local")
	for _, c := range []struct {
		name      string
		endpoints []service.Endpoint
		want      string // of a port with both policies
	}{
		{"none at all", nil, "[0 0 0 0]"},
		{"elsewhere", []service.Endpoint{there}, "[1 1 0 0]"},
		{"elsewhere, draining", []service.Endpoint{at("10.1.0.1:80", "draining")}, "[1 1 0 0]"},
		{"elsewhere, of no use", []service.Endpoint{at("10.1.0.1:80")}, "[0 0 0 0]"},
		{"here", []service.Endpoint{there, here}, "[0 0 0 0]"},
		{"here, draining", []service.Endpoint{there, at("10.1.1.1:80", "draining", "local")}, "[0 0 0 0]"},
		{"here, of no use", []service.Endpoint{there, at("10.1.1.1:80", "local")}, "[1 1 0 0]"},
		{"here by IPv4 alone", []service.Endpoint{here, at("[fd00::1]:80", "ready")}, "[0 0 1 1]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := NewMetrics(DefaultLimits(), "IPv4", "IPv6")
			p := &service.Port{Name: cart, Endpoints: c.endpoints, InternalLocal: true, ExternalLocal: true}
			m.ReplacePorts([]*service.Port{p})
			if got := lacking(m); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			m.UpdatePorts([]service.Change{{Name: cart, Port: &service.Port{Name: cart, Endpoints: c.endpoints}}})
			if got := lacking(m); got != "[0 0 0 0]" {
				t.Errorf("without a policy: %s", got)
			}
		})
	}
}

func TestNoLocalEndpointsShown(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4", "IPv6")
	there := []service.Endpoint{at("10.1.0.1:80", "ready")}
	m.ReplacePorts([]*service.Port{{Name: cart, Endpoints: there, ExternalLocal: true}})
	wantMetrics(t, m, `
# HELP kubeproxy_sync_proxy_rules_no_local_endpoints_total Service ports with a Local traffic policy and endpoints, none of them on this node.
# TYPE kubeproxy_sync_proxy_rules_no_local_endpoints_total gauge
kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"} 1
kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"} 0
kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv6",traffic_policy="external"} 0
kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv6",traffic_policy="internal"} 0
`, syncPrefix+"no_local_endpoints_total")
}

// Any sequence of updates ends in what a replacement by the last state shows.
func TestNoLocalEndpointsByUpdates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	endpoints := []service.Endpoint{
		at("10.1.0.1:80", "ready"), at("10.1.1.1:80", "ready", "local"), at("[fd00::1]:80", "ready"),
	}
	m, last := NewMetrics(DefaultLimits(), "IPv4", "IPv6"), map[service.PortName]*service.Port{}
	for range 300 {
		name := cart
		name.Name = fmt.Sprint(rng.IntN(6))
		change := service.Change{Name: name}
		delete(last, name)
		if rng.IntN(4) > 0 {
			change.Port = &service.Port{Name: name, InternalLocal: rng.IntN(2) == 0, ExternalLocal: rng.IntN(2) == 0}
			for i, e := range endpoints {
				if rng.IntN(1+i) == 0 {
					change.Port.Endpoints = append(change.Port.Endpoints, e)
				}
			}
			last[name] = change.Port
		}
		m.UpdatePorts([]service.Change{change})
		whole := NewMetrics(DefaultLimits(), "IPv4", "IPv6")
		var ports []*service.Port
		for _, p := range last {
			ports = append(ports, p)
		}
		whole.ReplacePorts(ports)
		if got, want := lacking(m), lacking(whole); got != want {
			t.Fatalf("after %v: %s, want %s", change, got, want)
		}
		if rng.IntN(10) == 0 {
			m.ReplacePorts(ports)
		}
	}
}

package service

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/portald/portald/platform/inet"
)

// endpoint reads an address and a letter for each of its conditions: Ready, Serving, Terminating, Local, NotHinted.
func endpoint(addr, traits string) Endpoint {
	has := func(c byte) bool { return slices.Contains([]byte(traits), c) }
	return Endpoint{
		Addr: netip.MustParseAddrPort(addr), Ready: has('R'), Serving: has('S'), Terminating: has('T'), Local: has('L'),
		NotHinted: has('D'),
	}
}

func TestUsable(t *testing.T) {
	for _, c := range []struct {
		name   string
		traits []string // of 10.0.0.0, 10.0.0.1, …
		scope  Scope
		want   []int
	}{
		{"ready before terminating", []string{"RS", "ST", ""}, ClusterScope, []int{0}},
		{"terminating that serve, when none is ready", []string{"ST", "T", ""}, ClusterScope, []int{0}},
		{"none", []string{"", "T", "S"}, ClusterScope, nil},
		{"the node's alone", []string{"RS", "RSL"}, NodeScope, []int{1}},
		{"the node's that terminate, though others are ready", []string{"RS", "STL"}, NodeScope, []int{1}},
		{"none of the node's", []string{"RS", "ST"}, NodeScope, nil},
		{"not those without a hint", []string{"RSD", "RS"}, ClusterScope, []int{1}},
		{"hints say nothing among the node's", []string{"RSLD", "RSL"}, NodeScope, []int{0, 1}},
	} {
		p := &Port{Endpoints: []Endpoint{}}
		for i, traits := range c.traits {
			p.Endpoints = append(p.Endpoints,
				endpoint(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80).String(), traits))
		}
		p.Endpoints = append(p.Endpoints, endpoint("[fd00::1]:80", "RSL"))
		var got []int
		for _, e := range p.Usable(inet.IPv4, c.scope) {
			got = append(got, int(e.Addr.Addr().As4()[3]))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		if six := p.Usable(inet.IPv6, c.scope); len(six) != 1 {
			t.Errorf("%s: of IPv6 %v", c.name, six)
		}
	}
}

func TestScope(t *testing.T) {
	for _, c := range []struct {
		internal, external bool
		cluster, node      Scope
	}{
		{false, false, ClusterScope, ClusterScope},
		{true, false, NodeScope, ClusterScope},
		{false, true, ClusterScope, NodeScope},
	} {
		p := &Port{InternalLocal: c.internal, ExternalLocal: c.external}
		if p.Scope(ClusterIP) != c.cluster || p.Scope(NodePort) != c.node || p.Scope(LoadBalancerIP) != c.node {
			t.Errorf("%+v: got %v, %v", c, p.Scope(ClusterIP), p.Scope(NodePort))
		}
	}
}

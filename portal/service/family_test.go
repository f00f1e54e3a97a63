package service

import (
	"net/netip"
	"testing"

	"github.com/portald/portald/platform/inet"
)

// A Service of many endpoints is held once: what there is of one family is a part of it.
func TestFamiliesShareMemory(t *testing.T) {
	p := &Port{}
	for _, text := range []string{"10.0.0.1:80", "10.0.0.2:80", "[fd00::1]:80"} {
		p.Endpoints = append(p.Endpoints, Endpoint{Addr: netip.MustParseAddrPort(text)})
	}
	four, six := p.EndpointsOf(inet.IPv4), p.EndpointsOf(inet.IPv6)
	if len(four) != 2 || &four[0] != &p.Endpoints[0] || len(six) != 1 || &six[0] != &p.Endpoints[2] {
		t.Errorf("IPv4 %v, IPv6 %v", four, six)
	}
	p.Endpoints = p.Endpoints[:2]
	if four, six := p.EndpointsOf(inet.IPv4), p.EndpointsOf(inet.IPv6); len(four) != 2 || len(six) != 0 {
		t.Errorf("of IPv4 alone: %v and %v", four, six)
	}
}

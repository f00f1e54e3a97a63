package userspace

import (
	"net/netip"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/splice"
)

// picker is a splice.Picker by a balancer.
type picker struct{ *balance.Balancer }

func (p picker) Pick(client netip.Addr, tried []netip.AddrPort, policy *service.Policy) (splice.Lease, bool) {
	e := p.Balancer.Pick(client, tried, policy)
	if e.Endpoint == nil {
		return splice.Lease{}, false
	}
	return splice.Lease{
		Endpoint: e.Endpoint.Addr(), Affinity: e.Affinity, State: e.Endpoint, Ejected: e.Ejected, Probe: e.Probe,
		Again: e.Again,
	}, true
}

func (p picker) Join(endpoint netip.AddrPort) splice.State { return p.Balancer.Join(endpoint) }

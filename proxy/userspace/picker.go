package userspace

import (
	"net/netip"

	"github.com/portald/portald/proxy/balance"
	"github.com/portald/portald/proxy/splice"
)

// picker is a splice.Picker that asks a balancer.
type picker struct{ *balance.Balancer }

func (p picker) Pick(client netip.Addr, tried []netip.AddrPort) (splice.Lease, bool) {
	e, affinity := p.Balancer.Pick(client, tried)
	if e == nil {
		return splice.Lease{}, false
	}
	return splice.Lease{Endpoint: e.Addr(), Affinity: affinity, State: e}, true
}

func (p picker) Join(endpoint netip.AddrPort) splice.State { return p.Balancer.Join(endpoint) }

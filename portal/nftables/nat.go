package nftables

import (
	"fmt"
	"net/netip"

	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal/service"
)

// redirect translates the destination to the address of the incoming interface and a port of a map.
type redirect struct{ port mapping }

func (s redirect) text(family) string { return "redirect to : " + s.port.text() }

func (s redirect) encode(p *program) {
	s.port.load(p, nfnl.NFT_REG_1)
	p.add("redir", func(a *nfnl.Attributes) {
		a.Uint32(nfnl.NFTA_REDIR_REG_PROTO_MIN, nfnl.NFT_REG_1)
		a.Uint32(nfnl.NFTA_REDIR_FLAGS, nfnl.NF_NAT_RANGE_PROTO_SPECIFIED)
	})
}

// dnatPort translates the destination to an address and a port of a map.
type dnatPort struct {
	addr netip.Addr
	port mapping
}

func (s dnatPort) text(family) string {
	return fmt.Sprintf(choose(s.addr.Is6(), "dnat to [%s] : %s", "dnat to %s : %s"), s.addr, s.port.text())
}

func (s dnatPort) encode(p *program) {
	p.immediate(nfnl.NFT_REG_1, s.addr.AsSlice())
	s.port.load(p, nfnl.NFT_REG_2)
	p.dnat(nfnl.NFT_REG_2, nfnl.NF_NAT_RANGE_PROTO_SPECIFIED)
}

// dnat translates the destination to an endpoint.
type dnat struct{ to netip.AddrPort }

func (s dnat) text(family) string { return "dnat to " + s.to.String() }

func (s dnat) encode(p *program) {
	p.immediate(nfnl.NFT_REG_1, s.to.Addr().AsSlice())
	p.immediate(nfnl.NFT_REG_2, network(s.to.Port()))
	p.dnat(nfnl.NFT_REG_2, nfnl.NF_NAT_RANGE_PROTO_SPECIFIED)
}

// dnatMap translates the destination to an endpoint of a map.
type dnatMap struct{ to mapping }

func (s dnatMap) text(f family) string { return fmt.Sprintf("dnat %s to %s", f.word, s.to.text()) }

func (s dnatMap) encode(p *program) {
	s.to.load(p, nfnl.NFT_REG_1)
	p.dnat(register32(nfnl.NFT_REG_1)+p.addr.size/registerSize, 0)
}

// dnatAny translates the destination to one of some endpoints, as an algorithm chooses it.
func (f family) dnatAny(by service.Algorithm, endpoints []netip.AddrPort) statement {
	if len(endpoints) == 1 {
		return dnat{endpoints[0]}
	}
	return dnatMap{mapping{f.literalMap(f.choice(by, len(endpoints)), endpoints)}}
}

// dnat appends the expression. The address is in the first register, the port in another.
func (p *program) dnat(port, flags uint32) {
	p.add("nat", func(a *nfnl.Attributes) {
		a.Uint32(nfnl.NFTA_NAT_TYPE, nfnl.NFT_NAT_DNAT)
		a.Uint32(nfnl.NFTA_NAT_FAMILY, uint32(p.number))
		a.Uint32(nfnl.NFTA_NAT_REG_ADDR_MIN, nfnl.NFT_REG_1)
		a.Uint32(nfnl.NFTA_NAT_REG_PROTO_MIN, port)
		if flags != 0 {
			a.Uint32(nfnl.NFTA_NAT_FLAGS, flags)
		}
	})
}

// masquerade translates the source to this node's address.
type masquerade struct{}

func (masquerade) text(family) string { return "masquerade fully-random" }

func (masquerade) encode(p *program) {
	p.add("masq", func(a *nfnl.Attributes) { a.Uint32(nfnl.NFTA_MASQ_FLAGS, nfnl.NF_NAT_RANGE_PROTO_RANDOM_FULLY) })
}

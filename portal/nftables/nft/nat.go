package nft

import (
	"fmt"
	"net/netip"

	"github.com/portald/portald/platform/nfnl"
)

// redirect translates the destination to the address of the incoming interface and a port of a map.
type redirect struct{ ports mapping }

func (s redirect) text(Family) string { return "redirect to : " + s.ports.text() }

func (s redirect) encode(p *program) {
	s.ports.load(p, nfnl.NFT_REG_1)
	p.add("redir", func(a *nfnl.Attributes) {
		a.Uint32(nfnl.NFTA_REDIR_REG_PROTO_MIN, nfnl.NFT_REG_1)
		a.Uint32(nfnl.NFTA_REDIR_FLAGS, nfnl.NF_NAT_RANGE_PROTO_SPECIFIED)
	})
}

// dnatPort translates the destination to an address and a port of a map.
type dnatPort struct {
	addr  netip.Addr
	ports mapping
}

func (s dnatPort) text(Family) string {
	return fmt.Sprintf(choose(s.addr.Is6(), "dnat to [%s] : %s", "dnat to %s : %s"), s.addr, s.ports.text())
}

func (s dnatPort) encode(p *program) {
	p.immediate(nfnl.NFT_REG_1, s.addr.AsSlice())
	s.ports.load(p, nfnl.NFT_REG_2)
	p.dnat(nfnl.NFT_REG_2, nfnl.NF_NAT_RANGE_PROTO_SPECIFIED)
}

// dnat translates the destination to an endpoint.
type dnat struct{ to netip.AddrPort }

func (s dnat) text(Family) string { return "dnat to " + s.to.String() }

func (s dnat) encode(p *program) {
	p.immediate(nfnl.NFT_REG_1, s.to.Addr().AsSlice())
	p.immediate(nfnl.NFT_REG_2, network(s.to.Port()))
	p.dnat(nfnl.NFT_REG_2, nfnl.NF_NAT_RANGE_PROTO_SPECIFIED)
}

// dnatMap translates the destination to an endpoint of a map.
type dnatMap struct{ to mapping }

func (s dnatMap) text(f Family) string { return fmt.Sprintf("dnat %s to %s", f.Word, s.to.text()) }

func (s dnatMap) encode(p *program) {
	s.to.load(p, nfnl.NFT_REG_1)
	p.dnat(register32(nfnl.NFT_REG_1)+p.family.addr.size/registerSize, 0)
}

// dnat appends the expression. The address is in the first register, the port in another.
func (p *program) dnat(port, flags uint32) {
	p.add("nat", func(a *nfnl.Attributes) {
		a.Uint32(nfnl.NFTA_NAT_TYPE, nfnl.NFT_NAT_DNAT)
		a.Uint32(nfnl.NFTA_NAT_FAMILY, uint32(p.family.Number))
		a.Uint32(nfnl.NFTA_NAT_REG_ADDR_MIN, nfnl.NFT_REG_1)
		a.Uint32(nfnl.NFTA_NAT_REG_PROTO_MIN, port)
		if flags != 0 {
			a.Uint32(nfnl.NFTA_NAT_FLAGS, flags)
		}
	})
}

// masquerade translates the source to this node's address.
type masquerade struct{}

func (masquerade) text(Family) string { return "masquerade fully-random" }

func (masquerade) encode(p *program) {
	p.add("masq", func(a *nfnl.Attributes) { a.Uint32(nfnl.NFTA_MASQ_FLAGS, nfnl.NF_NAT_RANGE_PROTO_RANDOM_FULLY) })
}

// Redirect translates the destination to the address of the incoming interface and the port that a map has for it.
func Redirect(ports *Set) Statement { return redirect{mapping{ports}} }

// DNATPort translates the destination to an address, and the port that a map has for it.
func DNATPort(addr netip.Addr, ports *Set) Statement { return dnatPort{addr, mapping{ports}} }

// DNAT translates the destination to an endpoint.
func DNAT(to netip.AddrPort) Statement { return dnat{to} }

// DNATMap translates the destination to the endpoint that a map has for it.
func DNATMap(endpoints *Set) Statement { return dnatMap{mapping{endpoints}} }

// Masquerade translates the source to this node's address.
func Masquerade() Statement { return masquerade{} }

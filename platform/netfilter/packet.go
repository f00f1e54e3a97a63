package netfilter

import (
	"net/netip"

	"github.com/portald/portald/platform/inet"
)

// Packet is the first packet of a flow as it enters a hook. A field that is not known may match any rule.
type Packet struct {
	Hook        Hook
	Behind      bool // it has passed NAT in this hook: it meets what comes after that
	Translated  bool // its destination was translated, in this hook or before
	Protocol    inet.Protocol
	Source      netip.Addr     // the zero Addr: not known
	Destination netip.AddrPort // the unspecified address stands for an address of this host
	Interface   string         // it came in by; empty: not known
	Local       func(netip.Addr) bool
}

func (p Packet) family() inet.Family { return inet.FamilyOf(p.Destination.Addr()) }

// local tells whether the destination is this host's.
func (p Packet) local() Answer {
	switch {
	case p.Destination.Addr().IsUnspecified():
		return Yes
	case p.Local == nil:
		return Maybe
	case p.Local(p.Destination.Addr()):
		return Yes
	}
	return No
}

// Answer is whether a packet of which not all is known matches.
type Answer uint8

// The answers, in this order.
const (
	No Answer = iota
	Maybe
	Yes
)

func (a Answer) not() Answer { return Yes - a }

func answer(yes bool) Answer {
	if yes {
		return Yes
	}
	return No
}

// condition is one match of a rule.
type condition func(Packet) Answer

// unknown is the condition of a match that this package does not know.
func unknown(Packet) Answer { return Maybe }

// matches is whether a packet meets all conditions.
func (a Action) matches(p Packet) Answer {
	all := Yes
	for _, c := range a.when {
		all = min(all, c(p))
	}
	return all
}

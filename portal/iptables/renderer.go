package iptables

import (
	"net/netip"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
)

// renderer writes the chains of one family, rule for rule as iptables-save prints them, so that what was written and
// what the host holds can be compared as text.
type renderer struct {
	chains
	family
	allNodeAddresses bool
	nodeAddresses    []netip.Prefix // of this family, unless all
	proxyRange       inet.PortRange // of the daemon's listeners
	address          netip.Addr     // of the listeners, if one was chosen
	mark             uint32         // of replies to clients' addresses; 0 = endpoints see this node's
	pods             []clients      // matches of pods
	masquerade       portal.Masquerade
	dials            uint32 // the mark of the daemon's own packets to endpoints; 0 = none
	liberal          bool   // conntrack never takes packets of known flows for invalid
	plain            bool   // MASQUERADE has no --random-fully
	filter           bool   // the table is filter, which refuses
}

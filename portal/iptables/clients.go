package iptables

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// clients is a match of clients, in the three places where iptables prints its parts, each with a blank at its end
// unless empty.
type clients struct{ source, device, match string }

// everybody is the match of all clients.
var everybody = []clients{{}}

// inside are matches of clients inside the cluster, one of which is enough.
func inside(pods []clients) []clients {
	return append([]clients{{match: fromNode}}, pods...)
}

const fromNode = "-m addrtype --src-type LOCAL "

// pods are matches of pods, one of which is enough. The host's own packets have no input interface, and match none.
func (f family) pods(in portal.LocalDetector) []clients {
	var all []clients
	for _, p := range f.merged(in.Sources) {
		all = append(all, clients{source: within("-s", p)})
	}
	if in.Interface != "" {
		all = append(all, clients{device: "-i " + in.Interface + " "})
	}
	if in.InterfacePrefix != "" {
		all = append(all, clients{device: "-i " + in.InterfacePrefix + "+ "})
	}
	return all
}

// outside is a match of clients that none of some matches, if one rule can say it: it can negate one source and one
// interface.
func outside(to []clients) (match clients, ok bool) {
	for _, c := range to {
		switch {
		case c == clients{}, c.match != "", c.source != "" && match.source != "", c.device != "" && match.device != "":
			return clients{}, false
		case c.source != "":
			match.source = "! " + c.source
		default:
			match.device = "! " + c.device
		}
	}
	return match, len(to) > 0
}

// merged are the prefixes of the family, as service.Merge returns them.
func (f family) merged(prefixes []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(service.Merge(prefixes), func(p netip.Prefix) bool { return !f.owns(p.Addr()) })
}

// within matches a source (-s) or destination (-d) by prefix, with a blank at its end unless that is everything.
func within(option string, p netip.Prefix) string {
	if p.Bits() == 0 {
		return ""
	}
	return option + " " + p.String() + " "
}

// exactly matches a source or destination by address, with a blank at its end.
func exactly(option string, addr netip.Addr) string {
	return within(option, netip.PrefixFrom(addr, addr.BitLen()))
}

package iptables

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// clients is a match of clients, in the three places in which iptables prints its parts, each with a blank at its end
// unless empty.
type clients struct{ source, device, match string }

// everybody needs no match.
var everybody = []clients{{}}

// insiders are matches, each enough, for clients inside.
func insiders(pods []clients) []clients {
	return append([]clients{{match: fromHere}}, pods...)
}

const fromHere = "-m addrtype --src-type LOCAL "

// pods are matches, each enough, for pods. An interface is not known of the host's own traffic, and does not match it.
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

// strangers is the one match for clients that match none of some, if one can say it: a rule has room for one source and
// one interface to deny.
func strangers(to []clients) (match clients, ok bool) {
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

// merged are the prefixes of the family, the fewest that say it, in order.
func (f family) merged(prefixes []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(service.Merge(prefixes), func(p netip.Prefix) bool { return !f.owns(p.Addr()) })
}

package main

import (
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal"
)

// insiders knows who is inside, for whom a Local external policy is not meant: this host, and its pods as detectLocalMode
// tells them. Safe for concurrent use.
type insiders struct {
	mode config.Inside
	host *host
	pods atomic.Pointer[[]netip.Prefix]
}

func newInsiders(mode config.Inside, h *host) *insiders {
	in := &insiders{mode: mode, host: h}
	in.pods.Store(&mode.CIDRs)
	return in
}

// setNode takes in the node's pod addresses. True: others are inside now.
func (in *insiders) setNode(podCIDRs []netip.Prefix) bool {
	if in.mode.Mode != config.ByNodeCIDR || slices.Equal(*in.pods.Load(), podCIDRs) {
		return false
	}
	in.pods.Store(&podCIDRs)
	return true
}

// has is splice.Options.Inside.
func (in *insiders) has(client netip.Addr, iface int) bool {
	if in.host.addresses.Contains(client) {
		return true
	}
	switch in.mode.Mode {
	case config.ByBridgeInterface:
		return in.host.names.Name(iface) == in.mode.Interface
	case config.ByInterfacePrefix:
		return strings.HasPrefix(in.host.names.Name(iface), in.mode.Interface)
	}
	inside := slices.ContainsFunc(*in.pods.Load(), func(p netip.Prefix) bool { return p.Contains(client) })
	return inside && !in.host.paths.Afar(client) // the addresses of all nodes' pods may be of one range
}

// rules says the same in the words of the writer, as far as rules can know: they let pods of other nodes pass to where
// has is asked.
func (in *insiders) rules() portal.Inside {
	switch in.mode.Mode {
	case config.ByBridgeInterface:
		return portal.Inside{Interface: in.mode.Interface}
	case config.ByInterfacePrefix:
		return portal.Inside{InterfacePrefix: in.mode.Interface}
	}
	return portal.Inside{Sources: *in.pods.Load()}
}

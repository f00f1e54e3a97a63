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
	switch {
	case in.host.addresses.Contains(client):
		return true
	case in.byInterface():
		return in.through(in.host.names.Name(iface))
	}
	return in.inRange(client) && !in.host.paths.Afar(client)
}

// hasKnown is splice.Options.InsideKnown.
func (in *insiders) hasKnown(client netip.Addr, iface int) (inside, known bool) {
	switch {
	case in.host.addresses.Contains(client):
		return true, true
	case in.byInterface():
		name, known := in.host.names.NameKnown(iface)
		return in.through(name), known
	case !in.inRange(client):
		return false, true
	}
	afar, known := in.host.paths.AfarKnown(client)
	return !afar, known
}

func (in *insiders) byInterface() bool {
	return in.mode.Mode == config.ByBridgeInterface || in.mode.Mode == config.ByInterfacePrefix
}

// through tells whether those inside come in by an interface of that name.
func (in *insiders) through(name string) bool {
	if in.mode.Mode == config.ByBridgeInterface {
		return name == in.mode.Interface
	}
	return strings.HasPrefix(name, in.mode.Interface)
}

// inRange tells whether an address is one of those of pods, on whatever node: those of all nodes may be of one range.
func (in *insiders) inRange(client netip.Addr) bool {
	return slices.ContainsFunc(*in.pods.Load(), func(p netip.Prefix) bool { return p.Contains(client) })
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

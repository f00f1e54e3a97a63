package daemon

import (
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal"
)

// localDetector tells which clients are inside the cluster, and so exempt from a Local external policy: this host, and
// its pods as detectLocalMode says. Safe for concurrent use.
type localDetector struct {
	mode config.DetectLocal
	host *host
	pods atomic.Pointer[[]netip.Prefix]
}

func newLocalDetector(mode config.DetectLocal, h *host) *localDetector {
	d := &localDetector{mode: mode, host: h}
	d.pods.Store(&mode.CIDRs)
	return d
}

// setPodCIDRs stores the pod addresses of the node. It returns true if that changes who is inside.
func (d *localDetector) setPodCIDRs(podCIDRs []netip.Prefix) bool {
	if d.mode.Mode != config.ByNodeCIDR || slices.Equal(*d.pods.Load(), podCIDRs) {
		return false
	}
	d.pods.Store(&podCIDRs)
	return true
}

// isLocal implements splice.Options.IsLocal.
func (d *localDetector) isLocal(client netip.Addr, iface int) bool {
	switch {
	case d.host.addresses.Contains(client):
		return true
	case d.byInterface():
		return d.matches(d.host.interfaces.Name(iface))
	}
	return d.inRange(client) && !d.host.paths.Remote(client)
}

// isIsLocalKnown implements splice.Options.IsLocalKnown.
func (d *localDetector) isIsLocalKnown(client netip.Addr, iface int) (inside, known bool) {
	switch {
	case d.host.addresses.Contains(client):
		return true, true
	case d.byInterface():
		name, known := d.host.interfaces.NameKnown(iface)
		return d.matches(name), known
	case !d.inRange(client):
		return false, true
	}
	remote, known := d.host.paths.RemoteKnown(client)
	return !remote, known
}

func (d *localDetector) byInterface() bool {
	return d.mode.Mode == config.ByBridgeInterface || d.mode.Mode == config.ByInterfacePrefix
}

// matches tells whether pods are connected by an interface of that name.
func (d *localDetector) matches(name string) bool {
	if d.mode.Mode == config.ByBridgeInterface {
		return name == d.mode.Interface
	}
	return strings.HasPrefix(name, d.mode.Interface)
}

// inRange tells whether an address is in the range of pods. Pods of all nodes may share one range.
func (d *localDetector) inRange(client netip.Addr) bool {
	return slices.ContainsFunc(*d.pods.Load(), func(p netip.Prefix) bool { return p.Contains(client) })
}

// rules returns the same for the writer, as far as rules can tell: they let pods of other nodes pass to the listener,
// where isLocal decides.
func (d *localDetector) rules() portal.LocalDetector {
	switch d.mode.Mode {
	case config.ByBridgeInterface:
		return portal.LocalDetector{Interface: d.mode.Interface}
	case config.ByInterfacePrefix:
		return portal.LocalDetector{InterfacePrefix: d.mode.Interface}
	}
	return portal.LocalDetector{Sources: *d.pods.Load()}
}

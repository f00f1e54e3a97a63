package hostinfo

import (
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal"
)

// LocalDetector tells which clients are inside the cluster, and so exempt from a Local external policy: this host, and
// its pods as detectLocalMode says. Safe for concurrent use.
type LocalDetector struct {
	mode config.DetectLocal
	host *Host
	pods atomic.Pointer[[]netip.Prefix]
}

// NewLocalDetector returns a detector of that mode; the host may be nil for Rules alone.
func NewLocalDetector(mode config.DetectLocal, h *Host) *LocalDetector {
	d := &LocalDetector{mode: mode, host: h}
	d.pods.Store(&mode.CIDRs)
	return d
}

// SetPodCIDRs stores the pod addresses of the node. It returns true if that changes who is inside.
func (d *LocalDetector) SetPodCIDRs(podCIDRs []netip.Prefix) bool {
	if d.mode.Mode != config.ByNodeCIDR || slices.Equal(*d.pods.Load(), podCIDRs) {
		return false
	}
	d.pods.Store(&podCIDRs)
	return true
}

// IsLocal implements splice.Options.IsLocal.
func (d *LocalDetector) IsLocal(client netip.Addr, iface int) bool {
	switch {
	case d.host.Addresses.Contains(client):
		return true
	case d.byInterface():
		return d.matches(d.host.interfaces.Name(iface))
	}
	return d.inRange(client) && !d.host.paths.Remote(client)
}

// IsLocalKnown implements splice.Options.IsLocalKnown.
func (d *LocalDetector) IsLocalKnown(client netip.Addr, iface int) (inside, known bool) {
	switch {
	case d.host.Addresses.Contains(client):
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

func (d *LocalDetector) byInterface() bool {
	return d.mode.Mode == config.ByBridgeInterface || d.mode.Mode == config.ByInterfacePrefix
}

// matches tells whether pods are connected by an interface of that name.
func (d *LocalDetector) matches(name string) bool {
	if d.mode.Mode == config.ByBridgeInterface {
		return name == d.mode.Interface
	}
	return strings.HasPrefix(name, d.mode.Interface)
}

// inRange tells whether an address is in the range of pods. Pods of all nodes may share one range.
func (d *LocalDetector) inRange(client netip.Addr) bool {
	return slices.ContainsFunc(*d.pods.Load(), func(p netip.Prefix) bool { return p.Contains(client) })
}

// Rules returns the same for the writer, as far as rules can tell: they let pods of other nodes pass to the listener,
// where IsLocal decides.
func (d *LocalDetector) Rules() portal.LocalDetector {
	switch d.mode.Mode {
	case config.ByBridgeInterface:
		return portal.LocalDetector{Interface: d.mode.Interface}
	case config.ByInterfacePrefix:
		return portal.LocalDetector{InterfacePrefix: d.mode.Interface}
	}
	return portal.LocalDetector{Sources: *d.pods.Load()}
}

// InsideByAddress is IsLocalKnown for a client of a query, whose interface is unknown.
func (d *LocalDetector) InsideByAddress(client netip.Addr) (inside, known bool) {
	if d.byInterface() && !d.host.Addresses.Contains(client) {
		return false, false
	}
	return d.IsLocalKnown(client, 0)
}

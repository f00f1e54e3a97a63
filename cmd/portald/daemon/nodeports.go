package daemon

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform"
)

// nodePorts knows the addresses that NodePorts are served on. Safe for concurrent use.
type nodePorts struct {
	cfg  *config.Config
	host func() []netip.Addr // this host's
	own  func() []netip.Addr // its primary ones
	node atomic.Pointer[[]netip.Addr]
	told atomic.Pointer[string] // by tell
}

func newNodePorts(cfg *config.Config, h *host, log logrus.FieldLogger) *nodePorts {
	n := &nodePorts{cfg: cfg, host: h.addresses.Node, own: func() []netip.Addr {
		found, err := platform.PrimaryAddresses(writers.NamesOf(cfg).Device())
		if err != nil {
			log.WithError(err).Warn("This host's own primary addresses are not known")
		}
		return found
	}}
	n.setNode(nil)
	return n
}

// setNode stores the addresses of the Node object.
func (n *nodePorts) setNode(addrs []netip.Addr) { n.node.Store(&addrs) }

// addresses are those of the configuration; empty means all.
func (n *nodePorts) addresses() []netip.Prefix {
	if n.isOwn() {
		return writers.NodePortAddresses(n.cfg, n.own())
	}
	return writers.NodePortAddresses(n.cfg, *n.node.Load())
}

// isOwn tells whether the host itself says what is its primary address, since manifests need not have a Node object.
func (n *nodePorts) isOwn() bool {
	return n.cfg.NodePorts.Primary && len(n.cfg.Manifests) > 0 && len(*n.node.Load()) == 0
}

// none says why NodePorts are not served; empty if they are.
func (n *nodePorts) none() string {
	within := n.addresses()
	here := func(a netip.Addr) bool {
		return slices.ContainsFunc(within, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	switch {
	case len(within) == 0, n.cfg.LocalhostNodePorts, slices.ContainsFunc(n.host(), here):
		return ""
	case n.isOwn():
		return "nodePortAddresses is primary, and this host has no address that others can reach"
	case n.cfg.NodePorts.Primary && len(*n.node.Load()) == 0:
		return fmt.Sprintf("nodePortAddresses is primary, and no Node %q with an address is known; --hostname-override "+
			"names another, and --nodeport-addresses addresses", n.cfg.NodeName)
	}
	return "this host has no address in nodePortAddresses " + prefixList(within)
}

// tell logs where NodePorts are served, if the configuration alone does not say it, and once.
func (n *nodePorts) tell(log logrus.FieldLogger) {
	if !n.cfg.NodePorts.Primary || n.none() != "" { // of which another line tells
		return
	}
	text := fmt.Sprintf("NodePorts are served on %s, of the Node %q", prefixList(n.addresses()), n.cfg.NodeName)
	if n.isOwn() {
		text = fmt.Sprintf("NodePorts are served on %s, this host's own: the manifests have no Node %q with an address",
			prefixList(n.addresses()), n.cfg.NodeName)
	}
	if was := n.told.Swap(&text); was == nil || *was != text {
		log.Info(text)
	}
}

// prefixList lists prefixes, single addresses without their length.
func prefixList(all []netip.Prefix) string {
	var out []string
	for _, p := range all {
		if p.IsSingleIP() {
			out = append(out, p.Addr().String())
		} else {
			out = append(out, p.String())
		}
	}
	return strings.Join(out, ", ")
}

package hostinfo

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/writers"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
)

// NodePorts knows the addresses that NodePorts are on. Rules, health checks of Services and reports have them from here
// alone. Safe for concurrent use.
type NodePorts struct {
	cfg  *config.Config
	log  logrus.FieldLogger
	host func() []netip.Addr // this host's, without loopback
	own  func() []netip.Addr // its primary ones

	mu     sync.Mutex
	node   []netip.Addr       // guarded by mu: the Node object's
	listen func([]netip.Addr) // guarded by mu: see Follow
	told   string             // guarded by mu: see tell
	ready  bool               // guarded by mu: what changes is told from then on

	now atomic.Pointer[nodePortState]
}

// nodePortState is computed from the configuration, the Node and the host's addresses. It is immutable.
type nodePortState struct {
	within []netip.Prefix // the ranges of addresses, for the writer of portals; empty: all
	here   []netip.Addr   // those that this host has, in order, without loopback
	isOwn  bool           // the host itself says what is primary, since manifests need not have a Node object
	noNode bool           // the addresses of the Node object are not known
}

// NewNodePorts returns the NodePorts of a configuration at the addresses of a host.
func NewNodePorts(cfg *config.Config, h *Host, log logrus.FieldLogger) *NodePorts {
	n := &NodePorts{cfg: cfg, log: log, host: h.Addresses.Node, own: func() []netip.Addr {
		found, err := platform.PrimaryAddresses(writers.ServiceInterface(cfg))
		if err != nil {
			log.WithError(err).Warn("Cannot read this host's primary addresses")
		}
		return found
	}}
	n.Refresh()
	return n
}

// Follow calls listen with the addresses that servers are to be bound to, now and whenever they change. An unspecified
// one stands for all of its family.
func (n *NodePorts) Follow(listen func([]netip.Addr)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listen = listen
	listen(n.bindable(n.now.Load()))
}

// SetNode stores the addresses of the Node object, as Refresh does the host's.
func (n *NodePorts) SetNode(addrs []netip.Addr) (changed bool) {
	n.mu.Lock()
	n.node = addrs
	n.mu.Unlock()
	return n.Refresh()
}

// Refresh looks at the host's addresses, and tells of a change.
func (n *NodePorts) Refresh() (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	was, is := n.now.Load(), n.state()
	n.now.Store(is)
	if was != nil && slices.Equal(was.within, is.within) && slices.Equal(was.here, is.here) {
		return false
	}
	if n.listen != nil {
		n.listen(n.bindable(is))
	}
	if n.ready {
		n.tell()
	}
	return true
}

func (n *NodePorts) state() *nodePortState {
	node := n.node
	s := &nodePortState{noNode: len(node) == 0}
	if s.isOwn = n.cfg.NodePorts.Primary && len(n.cfg.Manifests) > 0 && s.noNode; s.isOwn {
		node = n.own()
	}
	s.within = writers.NodePortAddresses(n.cfg, node)
	for _, a := range n.host() {
		if len(s.within) == 0 || slices.ContainsFunc(s.within, func(p netip.Prefix) bool { return p.Contains(a) }) {
			s.here = append(s.here, a)
		}
	}
	return s
}

// bindable returns where servers listen that are on the addresses of NodePorts. All addresses of a family are its
// unspecified one, which has those that come later too.
func (n *NodePorts) bindable(s *nodePortState) (out []netip.Addr) {
	for _, family := range inet.Families() {
		of := func(a netip.Addr) bool { return inet.FamilyOf(a) == family }
		all := func(p netip.Prefix) bool { return of(p.Addr()) && isAll(p) }
		switch {
		case len(s.within) == 0, slices.ContainsFunc(s.within, all):
			out = append(out, family.Unspecified())
			continue
		case n.cfg.LocalhostNodePorts[family]:
			out = append(out, family.Loopback())
		}
		for _, a := range s.here {
			if of(a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// isAll tells whether a range is a whole family.
func isAll(p netip.Prefix) bool { return p.Bits() == 0 }

// Within returns the ranges of the addresses, for the writer of portals; empty means all.
func (n *NodePorts) Within() []netip.Prefix { return n.now.Load().within }

// Here returns the addresses that this host has, in order, without loopback. The caller does not change it.
func (n *NodePorts) Here() []netip.Addr { return n.now.Load().here }

// On tells whether NodePorts are on an address of this host other than loopback.
func (n *NodePorts) On(a netip.Addr) bool { return slices.Contains(n.Here(), a) }

// none says why NodePorts are served on no address; empty if they are.
func (n *NodePorts) none() string {
	s, local := n.now.Load(), n.cfg.LocalhostNodePorts
	switch {
	case len(s.within) == 0, len(s.here) > 0, local[inet.IPv4], local[inet.IPv6]:
		return ""
	case s.isOwn:
		return "nodePortAddresses is primary, and this host has no address that others can reach"
	case n.cfg.NodePorts.Primary && s.noNode:
		return fmt.Sprintf("nodePortAddresses is primary, and no Node %q with an address is known; --hostname-override "+
			"names another, and --nodeport-addresses addresses", n.cfg.NodeName)
	}
	return "this host has no address in nodePortAddresses " + prefixList(s.within)
}

// Announce says where NodePorts are served, and from then on whenever that changes. Why not, which it returns, is for
// the caller to say the first time.
func (n *NodePorts) Announce() (none string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ready = true
	if none = n.none(); none != "" {
		n.told = none
		return none
	}
	n.tell()
	return ""
}

// tell logs where NodePorts are served, if the configuration alone does not say it, and once.
func (n *NodePorts) tell() {
	s := n.now.Load()
	text, log := n.none(), n.log.Warn
	switch {
	case text == "" && len(s.here) == 0, len(s.within) == 0, slices.ContainsFunc(s.within, isAll):
		return
	case text != "":
		text = "NodePorts are served on no address any more: " + text
	default:
		text, log = "NodePorts are served on "+addressList(s.here), n.log.Info
		switch {
		case len(n.cfg.NodePorts.CIDRs) > 0:
		case s.isOwn:
			text += fmt.Sprintf(", this host's own: the manifests have no Node %q with an address", n.cfg.NodeName)
		default:
			text += fmt.Sprintf(", of the Node %q", n.cfg.NodeName)
		}
	}
	if n.told != text {
		n.told = text
		log(text)
	}
}

func addressList(all []netip.Addr) string {
	var out []string
	for _, a := range all {
		out = append(out, a.String())
	}
	return strings.Join(out, ", ")
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

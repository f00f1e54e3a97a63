package iptables

import (
	"fmt"
	"regexp"
	"strings"
)

// chains are the names of our chains, the same in all tables. Chains with other names are never changed.
type chains struct {
	prefix      string
	services    string // all lookups begin here
	nodes       string // NodePorts
	addresses   string // all other portals
	guard       string // refuses flows to proxy ports that no portal redirected
	accept      string // accepts redirected flows to proxy ports, and flows to health-check ports
	proxyPorts  string // jumps to listener for the proxy ports that are open
	listener    string // accepts redirected flows and refuses others
	divert      string // marks replies to clients' addresses that the daemon dials from
	markMasq    string // marks flows to masquerade
	markOutside string // marks packets of clients that are not pods
	postrouting string // masquerades marked flows
	forward     string // accepts flows of portals that spread
	martian     string // drops packets to the loopback network from other hosts
	canary      string // empty: it is missing after a flush of the table
	ours        *regexp.Regexp
}

// A chain's name has at most 28 characters; the longest of ours adds 14 to the prefix.
const (
	maxName   = 28
	maxPrefix = maxName - len("-NP-SCTP-65472")
)

var prefixForm = regexp.MustCompile(`^[A-Z][A-Z0-9-]*$`)

// depth is how far below a built-in chain one of ours is: rules jump from lower depths to higher ones, and within
// atTop.
type depth int

// The depths.
const (
	atTop depth = iota
	atNodes
	atGroup
	atLeaf
	atFirewall
	atExternal
	atService
	atEndpoint
	atMark
)

// chain is the content of one of our chains.
type chain struct {
	depth depth
	rules string // each a line
}

// nameForms are the names of our chains behind the prefix, by depth.
var nameForms = [...]string{
	atTop:      `SERVICES|GUARD|ACCEPT|DIVERT|POSTROUTING|FORWARD|MARTIAN|PROXY-CANARY`,
	atNodes:    `NODEPORTS|IP|PROXYPORTS`,
	atGroup:    `IP-[01][0-9A-F]`,
	atLeaf:     `IP-[01][0-9A-F]-[01][0-9A-F]|NP-(?:TCP|UDP|SCTP)-[0-9]+|PP-(?:TCP|UDP)-[0-9]+`,
	atFirewall: `FW-[A-Z2-7]+`,
	atExternal: `EXT-[A-Z2-7]+`,
	atService:  `(?:SVC|SVL)-[A-Z2-7]+`,
	atEndpoint: `SEP-[A-Z2-7]+|MARK-OUTSIDE`,
	atMark:     `MARK-MASQ|LISTENER`,
}

// Names that a kube-proxy may have left, behind its prefix. Names of kubelet's chains (KUBE-FIREWALL,
// KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT) are not among them.
const (
	kubeProxyTop = `EXTERNAL-SERVICES|NODE-PORT|LOAD-BALANCER|PROXY-FIREWALL|SOURCE-RANGES-FIREWALL|` +
		`IPVS-FILTER|IPVS-OUT-FILTER`
	kubeProxyExternal = `XLB-[A-Z2-7]+`
)

const kubePrefix = "KUBE"

// newChains returns the names with a prefix. Extra is Options.ExtraNames.
func newChains(prefix, extra string) (chains, error) {
	if !prefixForm.MatchString(prefix) || len(prefix) > maxPrefix {
		return chains{}, fmt.Errorf("chain prefix %q: want at most %d of A-Z, 0-9 and -, a letter first", prefix, maxPrefix)
	}
	ours, err := oursForm(prefix, extra)
	if err != nil {
		return chains{}, fmt.Errorf("extra names of chains: %w", err)
	}
	return chains{
		prefix:      prefix,
		services:    prefix + "-SERVICES",
		nodes:       prefix + "-NODEPORTS",
		addresses:   prefix + "-IP",
		guard:       prefix + "-GUARD",
		accept:      prefix + "-ACCEPT",
		proxyPorts:  prefix + "-PROXYPORTS",
		listener:    prefix + "-LISTENER",
		divert:      prefix + "-DIVERT",
		markMasq:    prefix + "-MARK-MASQ",
		markOutside: prefix + "-MARK-OUTSIDE",
		postrouting: prefix + "-POSTROUTING",
		forward:     prefix + "-FORWARD",
		martian:     prefix + "-MARTIAN",
		canary:      prefix + "-PROXY-CANARY",
		ours:        ours,
	}, nil
}

// oursForm matches the names of our chains, with a group for each depth. Names of extra chains are atTop.
func oursForm(prefix, extra string) (*regexp.Regexp, error) {
	forms := nameForms
	if prefix == kubePrefix {
		forms[atTop] += "|" + kubeProxyTop
		forms[atExternal] += "|" + kubeProxyExternal
	}
	if extra != "" {
		forms[atTop] += "|" + extra
	}
	return regexp.Compile(`^` + prefix + `-(?:(` + strings.Join(forms[:], ")|(") + `))$`)
}

// depthOf returns the depth of a chain that is one of ours, be it of an earlier run.
func (c chains) depthOf(name string) (at depth, ours bool) {
	for i, start := range c.ours.FindStringSubmatchIndex(name) {
		if i > 1 && i%2 == 0 && start >= 0 {
			return depth(i/2 - 1), true
		}
	}
	return 0, false
}

// own tells whether a chain is one of ours.
func (c chains) own(name string) bool {
	return strings.HasPrefix(name, c.prefix) && c.ours.MatchString(name)
}

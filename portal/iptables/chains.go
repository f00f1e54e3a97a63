package iptables

import (
	"fmt"
	"regexp"
	"strings"
)

// chains knows the names of our chains. They are the same in all tables, and no other name is ever touched.
type chains struct {
	prefix      string
	services    string // every portal starts here
	nodes       string // node ports
	addresses   string // all other portals
	guard       string // refuses what went straight at a proxy port
	accept      string // lets translated flows to a proxy port in
	proxyPorts  string // leads to listener from the proxy ports that are open
	listener    string // lets translated flows in and refuses others
	divert      string // marks replies to clients' addresses that the daemon dials from
	markMasq    string // marks flows that are to have this node's address
	markOutside string // marks those of clients that are no pods
	postrouting string // gives marked flows this node's address
	forward     string // lets flows of spread portals through
	martian     string // keeps others away from the loopback network
	canary      string // empty: that it is there tells that nobody flushed the table
	ours        *regexp.Regexp
}

// A chain's name has at most 28 characters; the longest of ours adds 14 to the prefix.
const (
	maxName   = 28
	maxPrefix = maxName - len("-NP-SCTP-65472")
)

var prefixForm = regexp.MustCompile(`^[A-Z][A-Z0-9-]*$`)

// Names after the prefix: ours, those of chains of other rooms, and with the prefix that says so what a kube-proxy may
// have left. Names of kubelet's chains (KUBE-FIREWALL, KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT) are not among them.
const (
	ownNames = `SERVICES|NODEPORTS|GUARD|ACCEPT|PROXYPORTS|PP-(TCP|UDP)-[0-9]+|LISTENER|DIVERT|` +
		`IP|IP-[01][0-9A-F](-[01][0-9A-F])?|NP-(TCP|UDP|SCTP)-[0-9]+|` +
		`MARK-MASQ|MARK-OUTSIDE|POSTROUTING|FORWARD|MARTIAN|PROXY-CANARY|(SVC|SVL|EXT|FW|SEP)-[A-Z2-7]+`
	extraNames     = `IPVS-[A-Z0-9-]+|NODE-PORT|LOAD-BALANCER|PROXY-FIREWALL|SOURCE-RANGES-FIREWALL`
	kubeProxyNames = `EXTERNAL-SERVICES|XLB-[A-Z2-7]+`
)

const kubePrefix = "KUBE"

func newChains(prefix string) (chains, error) {
	if !prefixForm.MatchString(prefix) || len(prefix) > maxPrefix {
		return chains{}, fmt.Errorf("chain prefix %q: want at most %d of A-Z, 0-9 and -, a letter first", prefix, maxPrefix)
	}
	names := ownNames + "|" + extraNames
	if prefix == kubePrefix {
		names += "|" + kubeProxyNames
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
		ours:        regexp.MustCompile(`^` + prefix + `-(` + names + `)$`),
	}, nil
}

// own tells whether a chain is one of ours, be it of an earlier run.
func (c chains) own(name string) bool { return c.ours.MatchString(name) }

// The depths of chains below a built-in one: rules lead from lower depths to higher ones, but within atTop anywhere.
const (
	atTop = iota
	atNodes
	atGroup
	atLeaf
	atFirewall
	atExternal
	atService
	atEndpoint
	atMark
)

// depth tells how far below a built-in chain one of ours may stand.
func depth(name string) int {
	words := strings.Split(name, "-")
	last := words[len(words)-1]
	before := func(n int) string { return words[max(0, len(words)-n)] }
	switch {
	case last == "MASQ", last == "LISTENER":
		return atMark
	case last == "OUTSIDE", before(2) == "SEP":
		return atEndpoint
	case before(2) == "SVC", before(2) == "SVL":
		return atService
	case before(2) == "EXT", before(2) == "XLB":
		return atExternal
	case before(2) == "FW":
		return atFirewall
	case before(3) == "IP", before(3) == "NP", before(3) == "PP":
		return atLeaf
	case before(2) == "IP":
		return atGroup
	case last == "IP", last == "NODEPORTS", last == "PROXYPORTS":
		return atNodes
	}
	return atTop
}

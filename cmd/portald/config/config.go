// Package config makes the configuration that the daemon runs with out of defaults, a file and the command line. The file
// holds a KubeProxyConfiguration, which may be kube-proxy's own as it is, and a PortaldConfiguration for what
// kube-proxy never had. It knows no other part of the daemon beyond the words and defaults of a few, and reads nothing but
// that file and the host's name.
package config

import (
	"net/netip"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/userspace"
)

// Config is a configuration in which everything is decided and checked. It does not change once made.
type Config struct {
	NodeName         string     // as EndpointSlices give it: lower case
	NodeAddress      netip.Addr // the node's own, where that is said; else it is for the Node object to tell
	ServiceProxyName string     // of the Services to serve; empty: those without the label
	Manifests        []string   // where Services come from; empty: the API server
	API              API

	Mode         service.Mode // of Services that say none; userspace or kernel
	ProxyMode    string       // the same in kube-proxy's words: userspace, iptables, nftables or ipvs
	Writer       string       // that holds the rules: iptables, nftables or ipvs
	Masquerade   portal.Masquerade
	IPVS         IPVS           // for that writer
	ServiceCIDRs []netip.Prefix // for the writer nftables: addresses that only Services have

	HealthAddress       string // of the health server, with its port; empty: none
	MetricsAddress      string // of the metrics server
	BindAddressHardFail bool
	Profiling           bool // /debug/pprof on the metrics server

	NodePorts          NodePortAddresses
	LocalhostNodePorts bool           // serve NodePorts at 127.0.0.1 and ::1
	ExternalIPs        []netip.Prefix // what external IPs may be of
	NodeIPs            []netip.Addr   // that portals lead to, at most one of a family
	Inside             Inside

	ConnectionLog ConnectionLog
	LogFormat     string // text or json
	UDPSessions   int    // of one service port
	UDPTotal      int    // of all; 0: half the ports that the kernel chooses from
	Engine        string // one of the engines below

	SyncPeriod time.Duration // how often the host is looked at
	MinSync    time.Duration // at least this between two rounds of changes

	ProxyPorts      userspace.PortRange
	IPTablesVariant string // nft, legacy, or empty: what the host has
	OOMScoreAdj     int
	Conntrack       Conntrack

	Settings Settings // what a reload may change

	documents documents // all of it as it would be written
	text      []byte    // of the file
}

// Settings are the part of a configuration that takes effect without a restart.
type Settings struct {
	LogLevel logrus.Level
	Policy   service.Policy // every field is said: Never, or a negative number, where there is no limit
	Drain    time.Duration  // that open connections have at the end
	HandOver bool           // at the end the kernel carries all Services on; else nothing is left
}

// API says how to reach the API server. Without kubeconfig and master: as pods are told.
type API struct {
	Kubeconfig, Master              string
	ContentType, AcceptContentTypes string
	QPS                             float32
	Burst                           int
}

// NodePortAddresses are the addresses of the node that NodePorts are served on: all, or those that anything else here
// names.
type NodePortAddresses struct {
	All       bool
	Primary   bool // the node's own, as its Node object tells
	Localhost bool
	CIDRs     []netip.Prefix
}

// Inside tells which clients are in the cluster beside the node itself: by one of these, as the mode says.
type Inside struct {
	Mode      InsideMode
	CIDRs     []netip.Prefix // ByClusterCIDR; none: nobody is
	Interface string         // ByBridgeInterface: its name; ByInterfacePrefix: how names begin
}

// InsideMode is how pods are told from others. The values are those of detectLocalMode.
type InsideMode string

// The modes. In ByNodeCIDR the Node object has the addresses.
const (
	ByClusterCIDR     InsideMode = "ClusterCIDR"
	ByNodeCIDR        InsideMode = "NodeCIDR"
	ByBridgeInterface InsideMode = "BridgeInterface"
	ByInterfacePrefix InsideMode = "InterfaceNamePrefix"
)

// ConnectionLog is where records go. Path: empty for nowhere, "-" for standard error. Format: text or json.
type ConnectionLog struct{ Path, Format string }

// The engines of userspace mode. EngineAuto is EngineEpoll on Linux, else EngineGoroutine.
const (
	EngineAuto      = "auto"
	EngineEpoll     = "epoll"
	EngineGoroutine = "goroutine"
)

// IPVS is what the writer of that name is told.
type IPVS struct {
	Scheduler    string
	ExcludeCIDRs []netip.Prefix // of virtual servers that are others'
	StrictARP    bool           // answer for addresses on the interfaces that have them alone

	TCPTimeout, TCPFinTimeout, UDPTimeout time.Duration // 0: left as they are

	Fallback string // the writer where the kernel has no IPVS: iptables, or empty: none
}

// Conntrack is what the kernel is told about the flows it tracks. 0: it is left as it is.
type Conntrack struct {
	MaxPerCore, Min              int // a MaxPerCore of 0 leaves Min out too
	TCPEstablished, TCPCloseWait time.Duration
	UDP, UDPStream               time.Duration
	TCPBeLiberal                 bool
}

// Package config makes the daemon's configuration from defaults, a file and the command line. The file holds a
// KubeProxyConfiguration, which may be kube-proxy's own unchanged, and a PortaldConfiguration for what kube-proxy does
// not have. Each field and flag is declared once, as a setting, from which help, checks, reload and the manual follow.
// A draft joins file, flags and defaults, collects what is wrong with them, and becomes a Config.
//
// The package knows nothing of the other parts of the daemon but some names and defaults, and reads nothing but that
// file, the host name and an environment variable of kube-proxy's.
package config

import (
	"net/netip"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/secret"
)

// Config is a complete and checked configuration. It is immutable.
type Config struct {
	NodeName           string     // in EndpointSlices: lower case
	NodeAddress        netip.Addr // of the node, if it is configured; else the Node object has it
	ServiceProxyName   string     // label of the Services to serve; empty: those without the label
	Manifests          []string   // sources of Services; empty: the API server
	ClientPods         bool       // pods are watched too, to name clients
	RefusedAnnotations []string   // that Services may not set: names of service.Settings, or all
	API                API

	Mode         service.Mode // of Services without the annotation; userspace or kernel
	ProxyMode    string       // kube-proxy's name of it: userspace, iptables, nftables or ipvs
	Writer       string       // of rules: iptables, nftables or ipvs
	Masquerade   portal.Masquerade
	IPVS         IPVS           // for that writer
	ServiceCIDRs []netip.Prefix // of Service addresses, for the writer nftables
	Interface    string         // that gets addresses of Services, for the writer netsh
	ServeOverlay bool           // also where the pods are in an overlay network, for the writer netsh

	HealthAddress       string // of the health server, with its port; empty: none
	MetricsAddress      string // of the metrics server
	AdminSocket         string // of the commands that look into the daemon; empty: none
	HandOverSocket      string // where a successor finds the daemon; empty: none does
	KeepSocket          string // of a keeper; empty: none is looked for
	BindAddressHardFail bool
	Profiling           bool // /debug/pprof on the metrics server
	ReadOnlyAPI         bool // the reading part of the admin API on the metrics server, for clients of this node
	Page                bool // a page that shows it there

	NodePorts          NodePortAddresses
	LocalhostNodePorts [2]bool        // serve NodePorts at 127.0.0.1, at ::1: by inet.Family
	ExternalIPs        []netip.Prefix // from which Services may claim external IPs
	NodeIPs            []netip.Addr   // to which connections are redirected, at most one of a family
	DetectLocal        DetectLocal

	ConnectionLog ConnectionLog
	LogPath       string // of the daemon's own log; "-" for standard error
	LogFormat     string // text or json
	UDPSessions   int    // of one service port
	UDPTotal      int    // of all; 0: half the ports that the kernel chooses from
	Engine        string // one of the engines below

	SyncPeriod time.Duration // between checks of the host's rules
	MinSync    time.Duration // minimum between two writes of rules

	ProxyPorts      inet.PortRange
	IPTablesVariant string // nft, legacy, or empty: not chosen yet, or the plain commands
	OOMScoreAdj     int
	Conntrack       Conntrack

	Settings Settings // what a reload may change

	documents documents // as they would be written
	text      []byte    // of the file
}

// Settings are the part of a configuration that a reload can change.
type Settings struct {
	LogLevel logrus.Level
	Policy   service.Policy // every field is set: Never, or a negative number, if there is no limit
	Events   connlog.EventSettings
	Drain    time.Duration // for open connections after SIGTERM
	OnExit   OnExit
}

// OnExit says what the daemon leaves on the host when it exits: a value of the setting.
type OnExit string

// The values of onExit. The last is for those who try portald in a terminal: Ctrl-C leaves nothing, and where a script
// or a unit restarts it, the kernel carries on in between.
const (
	onExitKernel = "kernel"
	onExitRemove = "remove"
	onExitCtrlC  = "remove-on-interrupt"
)

// The values of overlayNetwork.
const (
	overlayRefuse = "refuse"
	overlayServe  = "serve"
)

// ToKernel tells whether the kernel is to carry all Services on, after SIGINT or without; else no rule is left.
func (o OnExit) ToKernel(interrupted bool) bool {
	return o == onExitKernel || o == onExitCtrlC && !interrupted
}

// API is how to reach the API server. Without kubeconfig and master: that of the pod's cluster.
type API struct {
	Kubeconfig                      string
	Master                          secret.URL
	ContentType, AcceptContentTypes string
	QPS                             float32
	Burst                           int
}

// NodePortAddresses are the addresses of the node on which NodePorts are served: all, or as the other fields say.
type NodePortAddresses struct {
	All       bool
	Primary   bool // those in the Node object
	Localhost bool
	CIDRs     []netip.Prefix
}

// DetectLocal is how to detect clients that are local to the cluster, besides the node itself: by the field of its
// mode.
type DetectLocal struct {
	Mode      DetectLocalMode
	CIDRs     []netip.Prefix // ByClusterCIDR; empty: no client is local
	Interface string         // ByBridgeInterface: its name; ByInterfacePrefix: the prefix
}

// DetectLocalMode says how local pods are detected: a value of kube-proxy's detectLocalMode.
type DetectLocalMode string

// The modes. For ByNodeCIDR the Node object has the CIDRs.
const (
	ByClusterCIDR     DetectLocalMode = "ClusterCIDR"
	ByNodeCIDR        DetectLocalMode = "NodeCIDR"
	ByBridgeInterface DetectLocalMode = "BridgeInterface"
	ByInterfacePrefix DetectLocalMode = "InterfaceNamePrefix"
)

// The engines of userspace mode. EngineAuto is EngineEpoll on Linux, else EngineGoroutine.
const (
	EngineAuto      = "auto"
	EngineEpoll     = "epoll"
	EngineGoroutine = "goroutine"
)

// IPVS are the options of the writer ipvs.
type IPVS struct {
	Scheduler    string
	ExcludeCIDRs []netip.Prefix // of virtual servers of other programs
	StrictARP    bool           // answer ARP for an address only on the interface that has it

	TCPTimeout, TCPFinTimeout, UDPTimeout time.Duration // 0: not changed

	Fallback string // the writer if the kernel has no IPVS: iptables, or empty: none
}

// Conntrack are the kernel's connection tracking settings. 0: not changed.
type Conntrack struct {
	MaxPerCore, Min              int // with a MaxPerCore of 0, Min has no effect
	TCPEstablished, TCPCloseWait time.Duration
	UDP, UDPStream               time.Duration
	TCPBeLiberal                 bool
}

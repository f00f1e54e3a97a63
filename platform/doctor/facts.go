package doctor

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/hns"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netfilter"
)

// Fact is a value, or why it is not known.
type Fact[T any] struct {
	Value T
	Err   error
}

// Facts are the input of all checks.
type Facts struct {
	System string // linux or windows; empty: this one

	Daemon   Fact[Daemon]
	Services Fact[Services] // that it serves
	Process  Fact[Process]  // of the daemon

	Kernel      Fact[Kernel]
	Sysctls     map[string]Fact[string] // by name, as net.ipv4.ip_forward
	Conntrack   Fact[Conntrack]
	XtablesLock Fact[Lock]
	IPTables    Fact[IPTables]
	Rules       Fact[*netfilter.Ruleset]
	IPVS        Fact[IPVS]
	KubeProxies Fact[[]int] // process ids in this network namespace
	Links       Fact[[]Link]
	Routes      Fact[Routes]
	Listeners   Fact[[]Listener]
	Sockets     Fact[Sockets]
	Clock       Fact[Clock]
	Connects    Fact[[]ConnectProgram] // that run for clients on this node

	Elevated  Fact[bool]
	Service   Fact[string]             // its state; Running
	Excluded  Fact[[]ExcludedPorts]    // ports that Windows keeps
	Networks  Fact[[]hns.Network]      // of containers
	Dynamic   Fact[[]DynamicPorts]     // ports that Windows gives to programs that ask for any
	Balancers Fact[[]hns.LoadBalancer] // of another proxy: portald has none
}

// ErrNotRunning is why nothing is known of a daemon that does not answer.
var ErrNotRunning = errors.New("portald does not answer")

// ErrDenied is why nothing is known of a daemon that runs and may not be asked.
var ErrDenied = errors.New("portald may not be asked")

// daemon returns what the daemon says, or why it says nothing.
func (f *Facts) daemon() (*Daemon, error) {
	if f.Daemon.Err != nil {
		return nil, ErrNotRunning
	}
	return &f.Daemon.Value, nil
}

// services returns what the daemon serves, or why that is not known.
func (f *Facts) services() (Services, error) {
	if _, err := f.daemon(); err != nil {
		return nil, err
	}
	return f.Services.Value, f.Services.Err
}

// deviceWith returns the interface that has an address; empty if none has.
func (f *Facts) deviceWith(a netip.Addr) string {
	for _, l := range f.Links.Value {
		for _, own := range l.Addresses {
			if own == a {
				return l.Name
			}
		}
	}
	return ""
}

// Daemon describes a running portald, in its own words.
type Daemon struct {
	Version, Node string
	PID           int
	Mode, Writer  string
	Ready         bool
	Started       time.Time
	Alongside     bool // the cluster's service proxy serves the node too, and portald only Services with a label
	Disturbed     Disturbed
}

// A mode and writers that checks depend on.
const (
	userspace = "userspace" // without rules of kube-proxy's names
	nftables  = "nftables"  // without commands
	ipvs      = "ipvs"
)

// Disturbed is how others changed the daemon's rules since it started.
type Disturbed struct {
	Times   int
	Last    time.Time
	Found   string // the last time
	Missing bool   // still
	By      []string
}

func (d Daemon) String() string {
	if d.Version == "" {
		return ""
	}
	return fmt.Sprintf("portald %s on %s, mode %s by %s, pid %d", d.Version, d.Node, d.Mode, d.Writer, d.PID)
}

// Services are the service ports that the daemon serves.
type Services []Service

// Service is a service port.
type Service struct {
	Name, Protocol string // tcp, udp or sctp
	Kernel         bool   // its connections are carried by the kernel
	Problem        string // why it, or part of it, is not served
	Frontends      []Frontend
	Endpoints      []netip.AddrPort // some of those that the kernel leads to
}

// Frontend is an address that clients dial.
type Frontend struct {
	Address   netip.AddrPort
	Kind      string // ClusterIP, NodePort, …
	ProxyPort uint16 // 0: no listener
	Holder    string // the Service that holds it, if another does
}

// Frontend kinds with meaning here.
const (
	clusterIP = "ClusterIP"
	nodePort  = "NodePort"
)

// Process is the daemon's process.
type Process struct {
	Descriptors, Limit int                 // open, and how many it may open
	Sockets            map[uint64]struct{} // by inode
	Memory             Memory
}

// Memory is the memory use of the process's control group.
type Memory struct {
	Used, Limit int64 // bytes, without cache that can be dropped; a limit of 0 is none
	Kills       int   // by the OOM killer since the group exists
}

// Kernel is the version of the kernel.
type Kernel struct {
	Release      string
	Major, Minor int
}

// Conntrack is the table of connections.
type Conntrack struct {
	Count, Max, Buckets int
	Stats, Later        ConntrackStats // a second later
}

// ConntrackStats are counters since the namespace exists.
type ConntrackStats struct {
	InsertFailed, Drop, EarlyDrop uint64
}

// Lock tells which process holds the lock of iptables-legacy.
type Lock struct {
	Path    string
	By      string        // a process, as "firewalld (pid 12)"; empty: nobody
	Waiting int           // processes that wait for it
	Held    time.Duration // at least
}

// IPTables tells whether the command iptables works, and how fast.
type IPTables struct {
	Failed error         // it did not
	Took   time.Duration // at most two seconds
}

// IPVS is the kernel's load balancer.
type IPVS struct {
	Loaded  bool
	Servers []string // virtual servers, as "TCP 10.96.0.1:443"
}

// Link is a network interface.
type Link struct {
	Name, Kind string // vxlan, veth, bridge, device, …
	Master     string
	MTU        int
	Up         bool
	Addresses  []netip.Addr
}

// Routes are where packets of this node go.
type Routes struct {
	Default  map[bool]Route // to the Internet; true: IPv6
	Services []Route        // to addresses of Services
}

// Route is how the kernel sends packets of this node to an address.
type Route struct {
	To     netip.Addr
	Failed string // why it does not: unreachable, blackhole, prohibited
	Device string
	Source netip.Addr
	Local  bool // the address is this node's
}

// Listener is a socket that waits for connections or datagrams.
type Listener struct {
	Protocol string // tcp or udp
	Address  netip.AddrPort
	Inode    uint64
	PID      int // 0: not known
	Process  string
}

// Sockets is how many there are in this network namespace.
type Sockets struct{ TCP, TimeWait, UDP int }

// Clock is the kernel's clock.
type Clock struct {
	Synchronized bool
	MaxError     time.Duration
}

// DynamicPorts is the range of local ports for programs that ask for any, and for services that reserve some.
type DynamicPorts struct {
	Protocol string // tcp or udp
	inet.PortRange
}

// ExcludedPorts is a range of ports that no program may bind.
type ExcludedPorts struct {
	Protocol string // tcp or udp
	inet.PortRange
}

package explain

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netfilter"
	"github.com/portald/portald/platform/reach"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/record"
)

// Node has the facts of this node, for any query. A func may be nil: then that fact is unknown.
type Node struct {
	Name   string
	Mode   service.Mode // of service ports that set none
	Writer string       // iptables, nftables, ipvs or netsh
	Policy service.Policy

	Scheduler string // of IPVS, for service ports that choose none

	Busy error // why the reconcile loop's state could not be read; nil: it was read

	NodePorts []netip.Addr // addresses of this host that NodePorts are on, without loopback

	// Local tells whether an address is this host's. Inside tells whether a client is inside the cluster, as far as its
	// address says so.
	Local  func(netip.Addr) bool
	Inside func(netip.Addr) (inside, known bool)

	Path    func(netip.Addr) reach.Path // what the host knows of its way to an address
	SynSent time.Duration               // how long conntrack keeps a connection without an answer; 0: it is not known

	Rules *netfilter.Ruleset // of the host; nil: the system has none
	Own   netfilter.Own      // which of them are portald's

	Outgoing []Outgoing // of a pod that was asked for
}

// Outgoing is an entry of the conntrack table that a pod began, to a Service that it is no endpoint of.
type Outgoing struct {
	flows.Flow
	Service service.PortName
}

// Subject is a service port that is explained.
type Subject struct {
	Port     *service.Port // as the cluster wants it
	Applied  *Applied      // nil: nothing of it was applied, or Node.Busy
	Problems []string      // of its Service: what is not served
	Ignored  []string      // annotations of its Service that have no effect, or another one than they say

	Shown    portal.Shown // what the host has of it
	ShownErr error        // why that is not all
	Shows    bool         // the writer can tell

	Refused    Lost               // packets of clients that rules refused or dropped, for want of an endpoint
	BufferFull Lost               // datagrams that found a receive buffer of portald full
	Sharing    [2]bool            // its proxy port with other service ports, by inet.Family
	Waiting    int                // connections and sessions of its Service that wait for an endpoint
	Open       [2]int             // connections and sessions of userspace mode, by inet.Family
	OpenOf     map[netip.Addr]int // and by client; nil: it may have as many as it wants
	Bound      func(scope service.Scope, client netip.Addr) (netip.AddrPort, bool)
	Bindings   map[netip.AddrPort]int // clients that portald has bound by affinity, by endpoint
	Drained    func(netip.AddrPort) bool
	Ejected    func(netip.AddrPort) (why string) // empty: it is not

	Changes  []changes.Change // of its Service, the newest at the end, as far as they are remembered
	Records  []*record.Record // the last, the newest at the end
	Live     []record.Live    // open in userspace mode, of the client or endpoint that was asked for
	MoreLive int              // of those, not in Live
	Flows    []flows.Flow     // in the kernel's conntrack table
	Answers  []flows.Flow     // of UDP, that MayAnswer
	FlowsErr error

	Probes map[netip.AddrPort]reach.Result // of endpoints; nil: none was asked for
}

// Lost are packets that had one fate, the last time that there were any; zero where it is not known.
type Lost struct {
	Packets uint64
	Since   time.Time // when it began
	Until   time.Time // when more packets were seen last
	Lately  bool      // so that it may go on
}

// Applied says how a service port is served: by which mode and portals, or why not.
type Applied struct {
	Port       *service.Port
	Mode       service.Mode
	Claims     []portal.Portal
	Holders    map[service.Frontend]service.PortName
	Quarantine string // the reason; empty: it is not
	Err        error
	Retry      time.Time // zero: when it changes
}

// portal returns what the service port claims at a frontend; nil: nothing.
func (a *Applied) portal(f service.Frontend) *portal.Portal {
	for i := range a.Claims {
		if a.Claims[i].Frontend == f {
			return &a.Claims[i]
		}
	}
	return nil
}

// label is the name of the subject in sentences and commands.
func (s *Subject) label() string { return s.Port.Name.Label() }

// name is an endpoint with its pod.
func (s *Subject) name(at netip.AddrPort) string {
	if pod := s.pod(at); pod != "" {
		return at.String() + " (pod " + pod + ")"
	}
	if slices.ContainsFunc(s.Port.Endpoints, func(x service.Endpoint) bool { return x.Addr == at }) {
		return at.String()
	}
	return at.String() + " (no endpoint now)"
}

// pod is the pod of an endpoint, empty where none is known.
func (s *Subject) pod(at netip.AddrPort) string {
	for _, x := range s.Port.Endpoints {
		if x.Addr == at {
			return x.Pod
		}
	}
	return ""
}

// flag is the flag of commands that chooses its Service.
func (s *Subject) flag() string { return "--service " + s.Port.Name.Service().String() }

// OwnPortals returns the portals that the host is to have for the service port, ClusterIPs first: claims of frontends
// that an older Service owns are left out.
func (a *Applied) OwnPortals() (out []portal.Portal) {
	for _, p := range a.Claims {
		if holder, owned := a.Holders[p.Frontend]; owned && holder == a.Port.Name {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b portal.Portal) int { return cmp.Compare(a.Kind, b.Kind) })
	return out
}

// Dialled tells whether an address that a client dials is a frontend. Local tells the addresses of this host.
func (s *Subject) Dialled(to netip.AddrPort, proto inet.Protocol, local func(netip.Addr) bool) bool {
	return slices.ContainsFunc(s.Port.Exposures, func(x service.Exposure) bool {
		at := x.Frontend.Addr
		node := x.Kind == service.NodePort && at.Port() == to.Port() && local(to.Addr())
		return proto == x.Frontend.Protocol && (node || at == to)
	})
}

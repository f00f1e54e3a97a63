package splice

import (
	"net/netip"
	"os"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
)

// Options of a Core. Zero values mean the defaults that each field names.
type Options struct {
	Policy      service.Policy // for what a service port leaves open; zero fields mean service.DefaultPolicy
	SourcePorts SourcePorts    // local ports of TCP sockets to endpoints; default the kernel's
	UDPSessions int            // sessions of one UDP socket; default DefaultUDPSessions
	Account     *quota.Account // of descriptors, sessions and memory; default one without bounds
	TCPInfo     bool           // records have TCP_INFO of both sockets, which costs a microsecond a connection
	Start       time.Time      // 0 of the core's clock; one that a successor uses too can go on with it; default now
	Mark        uint32         // SO_MARK of sockets to endpoints, for which it needs CAP_NET_ADMIN; default none

	// Observe is called when a front is opened, and returns the observer of its connections. Default: none.
	Observe func(service.PortName) record.Observer
	// WhoIs tells which pod has a client's address, for records and Live. It is called when a connection begins, on the
	// data path: it must not block. Default: no pod is known.
	WhoIs func(client netip.Addr) (service.Workload, bool)
	// Listen returns a socket that listens at (TCP) or is bound to (UDP) an address already, for a service port, such as
	// one of a predecessor. Default: there is none.
	Listen func(name service.PortName, at netip.AddrPort) (Inherited, error)
	// Listening is called when a socket of a service port was opened or closed at an address. It must not block. Default:
	// nobody is told.
	Listening func(name service.PortName, at netip.AddrPort)
	// NeedPods is called when a client begins to wait for an endpoint of a service port that has none, at most every five
	// seconds for a Service. It must not block. Default: nobody is told.
	NeedPods func(*service.Port)
	// Warn is called for a shortage (descriptors, memory) that the engine survived, with a PortsError, with a
	// ReceiveBufferError and with ErrTransparent. It must not block, and may be called often. Default: none.
	Warn func(error)
	// OriginalDst returns the address that a client dialled before NAT, of an accepted TCP connection; an error means
	// that it was not translated. Default: nothing is translated.
	OriginalDst func(fd int, family inet.Family) (netip.AddrPort, error)
	// OriginalDstUDP returns the same of a UDP flow from client to local. EMFILE and ENFILE are shortages of the host.
	OriginalDstUDP func(client, local netip.AddrPort) (netip.AddrPort, error)
	// IsLocal is the local detector: it tells whether a client is inside the cluster, this node itself or a pod. It is
	// called for service ports with externalTrafficPolicy Local, with the index of the interface that the client came
	// in by, 0 when it is not known; for a client on this node that is the interface with the address it dialled. It
	// may block: only that connection waits. Default: no client is.
	IsLocal func(client netip.Addr, iface int) bool
	// IsLocalKnown is called first, on an event loop: it must not block, nor call the kernel. Not known: IsLocal is
	// called.
	IsLocalKnown func(client netip.Addr, iface int) (inside, known bool)
	// NodeAddresses returns the addresses of this node. If source ranges contain any, its own clients may dial a load
	// balancer's address from there, where the node has that address itself. It must not block. Default: they are not
	// known.
	NodeAddresses func() []netip.Addr
	// Returns tells whether an endpoint's replies to the client's address are routed to the socket that the engine
	// bound to it: not where the two are one, or either is this host. With the index of the interface that the client
	// came in by, not 0, it also tells whether that address is behind it: who sends datagrams may write any. It is called
	// for each dial of transparent service ports, and may block as IsLocal. Default: they are not, and endpoints see this
	// node's address.
	Returns func(client, endpoint netip.Addr, iface int) bool
	// ReturnsKnown is called before Returns, on an event loop: it must not block, nor call the kernel. Not known: Returns
	// is called.
	ReturnsKnown func(client, endpoint netip.Addr, iface int) (returns, known bool)
}

// SourcePorts are the local ports that connections to endpoints may have.
type SourcePorts struct {
	Range    inet.PortRange   // Last is 0: the kernel chooses
	Reserved []inet.PortRange // ports of Range that are left to servers; they do not overlap
}

// Count returns how many ports there are, 0 if the kernel chooses.
func (p SourcePorts) Count() int {
	if p.Range.Last == 0 {
		return 0
	}
	n := p.Range.Size()
	for _, r := range p.Reserved {
		n -= inet.PortRange{First: max(r.First, p.Range.First), Last: min(r.Last, p.Range.Last)}.Size()
	}
	return n
}

// Inherited is a socket that was open before.
type Inherited struct {
	File   *os.File // the engine closes it; nil: there is none, and the engine makes one
	Paused bool     // a UDP socket, which receives nothing until its Sessions' Resume
}

// DefaultUDPSessions is the limit of UDP sessions of one socket where Options set none.
const DefaultUDPSessions = 4096

func (o *Options) setDefaults() {
	if o.Start.IsZero() {
		o.Start = time.Now()
	}
	if o.UDPSessions == 0 {
		o.UDPSessions = DefaultUDPSessions
	}
	if o.NeedPods == nil {
		o.NeedPods = func(*service.Port) {}
	}
	if o.Account == nil {
		o.Account = quota.NewAccount(quota.Budget{})
	}
	if o.Observe == nil {
		o.Observe = func(service.PortName) record.Observer { return record.ObserverFunc(func(*record.Record) {}) }
	}
	if o.WhoIs == nil {
		o.WhoIs = func(netip.Addr) (_ service.Workload, known bool) { return }
	}
	if o.Listen == nil {
		o.Listen = func(service.PortName, netip.AddrPort) (_ Inherited, _ error) { return }
	}
	if o.Listening == nil {
		o.Listening = func(service.PortName, netip.AddrPort) {}
	}
	if o.NodeAddresses == nil {
		o.NodeAddresses = func() []netip.Addr { return nil }
	}
	if o.Warn == nil {
		o.Warn = func(error) {}
	}
	if noDetector := o.IsLocal == nil; o.IsLocalKnown == nil {
		o.IsLocalKnown = func(netip.Addr, int) (inside, known bool) { return false, noDetector }
	}
	if noReturns := o.Returns == nil; o.ReturnsKnown == nil {
		o.ReturnsKnown = func(_, _ netip.Addr, _ int) (returns, known bool) { return false, noReturns }
	}
}

package splice

import (
	"net/netip"
	"os"

	"github.com/portald/portald/proxy/service"
)

// Options of a Core. Zero values mean the defaults that each field names.
type Options struct {
	Policy      service.Policy // for what a service port leaves open; zero fields mean service.DefaultPolicy
	SourcePorts PortSpan       // local ports of TCP sockets to endpoints; default the kernel's
	SpareSource []PortSpan     // of these, those that are left alone
	UDPSessions int            // sessions one UDP socket may hold; default DefaultUDPSessions
	Account     *Account       // of what there is for all; default one without bounds
	Mark        uint32         // of what it sends to endpoints, which it has to be allowed to set; default none

	// Observe returns who is told of the connections of a service port, when a front of it is opened. Default nobody.
	Observe func(service.PortName) Observer
	// Listen returns a socket that listens at (TCP) or is bound to (UDP) an address already, such as one of a
	// predecessor; nil: there is none, and the engine makes one. The engine closes the file. Default: there is none.
	Listen func(p service.Protocol, at netip.AddrPort) (*os.File, error)
	// Trouble is told of a shortage (descriptors, memory) that the engine survived, of PortsError and of
	// ErrTransparent. It must not block, and may be called often. Default none.
	Trouble func(error)
	// OriginalDst tells what address a translated TCP connection was dialled to; an error means that it was not
	// translated. Default: nothing is translated.
	OriginalDst func(fd int, family service.IPFamily) (netip.AddrPort, error)
	// OriginalDstUDP tells the same of a UDP flow from client to local.
	OriginalDstUDP func(client, local netip.AddrPort) (netip.AddrPort, error)
	// Inside tells whether a client is inside the cluster: this node itself or a pod. Only externally local service
	// ports have it asked, with the index of the interface that the client came in by, 0 when it is not known; a client
	// on this node seems to come by whichever has the address it dialled. It may take its time: only who asks waits.
	// Default: nobody is.
	Inside func(client netip.Addr, iface int) bool
	// InsideKnown is asked first, on an event loop: it must not wait, nor ask the kernel. Not known: Inside is asked.
	InsideKnown func(client netip.Addr, iface int) (inside, known bool)
	// Returns tells whether what an endpoint answers to a client's own address comes back to the socket that the engine
	// bound to it: not where the two are one, or either is this host. Only transparent service ports have it asked, for
	// each dial. It may take its time, as Inside. Default: nothing does, and endpoints see this node's address.
	Returns func(client, endpoint netip.Addr) bool
	// ReturnsKnown is to Returns what InsideKnown is to Inside.
	ReturnsKnown func(client, endpoint netip.Addr) (returns, known bool)
}

// PortSpan is some local ports in a row, both ends included.
type PortSpan struct{ First, Last uint16 }

// DefaultUDPSessions is the limit of UDP sessions of one socket where Options set none.
const DefaultUDPSessions = 4096

func (o *Options) setDefaults() {
	if o.UDPSessions == 0 {
		o.UDPSessions = DefaultUDPSessions
	}
	if o.Account == nil {
		o.Account = NewAccount(Budget{})
	}
	if o.Observe == nil {
		o.Observe = func(service.PortName) Observer { return ObserverFunc(func(*Record) {}) }
	}
	if o.Listen == nil {
		o.Listen = func(service.Protocol, netip.AddrPort) (*os.File, error) { return nil, nil }
	}
	if o.Trouble == nil {
		o.Trouble = func(error) {}
	}
	if noInside := o.Inside == nil; o.InsideKnown == nil {
		o.InsideKnown = func(netip.Addr, int) (inside, known bool) { return false, noInside }
	}
	if noReturns := o.Returns == nil; o.ReturnsKnown == nil {
		o.ReturnsKnown = func(_, _ netip.Addr) (returns, known bool) { return false, noReturns }
	}
}

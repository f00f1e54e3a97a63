// Package service is the vocabulary of portald: service ports, their frontends and endpoints, and the Store that holds
// the newest state of each. It knows neither Kubernetes' types nor how traffic is carried.
//
// A source sets the ports of whole Services; one consumer takes what changed, however often it did meanwhile:
//
//	store.Set(service.Name{Namespace: "shop", Name: "cart"}, ports)
//
//	<-store.Changed()
//	changes, triggered := store.Take()
package service

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/platform/inet"
)

// Name names a Service.
type Name struct{ Namespace, Name string }

func (n Name) String() string { return n.Namespace + "/" + n.Name }

// PortName names one port of one Service: the key of everything. Port is the port's name, empty where it has none.
type PortName struct {
	Namespace, Name, Port string
	Protocol              inet.Protocol
}

// Service is the Service the port belongs to.
func (n PortName) Service() Name { return Name{n.Namespace, n.Name} }

// Label is "namespace/name:port", or "namespace/name" for an unnamed port: what records, rules and metrics show.
func (n PortName) Label() string {
	if n.Port == "" {
		return n.Namespace + "/" + n.Name
	}
	return n.Namespace + "/" + n.Name + ":" + n.Port
}

// String is the label and the protocol, unique among all service ports.
func (n PortName) String() string { return n.Label() + "/" + n.Protocol.String() }

// Compare orders names by namespace, name, port name, protocol.
func (n PortName) Compare(o PortName) int {
	return cmp.Or(cmp.Compare(n.Namespace, o.Namespace), cmp.Compare(n.Name, o.Name),
		cmp.Compare(n.Port, o.Port), cmp.Compare(n.Protocol, o.Protocol))
}

// Kind says how a service port came to a frontend.
type Kind uint8

// The kinds of frontend.
const (
	ClusterIP Kind = iota
	NodePort
	ExternalIP
	LoadBalancerIP

	Kinds = iota // how many there are
)

func (k Kind) String() string {
	switch k {
	case ClusterIP:
		return "ClusterIP"
	case NodePort:
		return "NodePort"
	case ExternalIP:
		return "ExternalIP"
	case LoadBalancerIP:
		return "LoadBalancerIP"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Frontend is an address clients dial. A NodePort has the unspecified address of its family (0.0.0.0 or ::), which
// stands for "each node address that node ports are served on"; no other kind may have it.
type Frontend struct {
	Addr     netip.AddrPort
	Protocol inet.Protocol
}

func (f Frontend) String() string { return f.Addr.String() + "/" + f.Protocol.String() }

// Compare orders frontends by address, port, protocol.
func (f Frontend) Compare(o Frontend) int {
	return cmp.Or(f.Addr.Compare(o.Addr), cmp.Compare(f.Protocol, o.Protocol))
}

// Exposure is one frontend of a service port. The kind stands beside the frontend, never inside it: an external IP and
// a load-balancer IP may be one address, and are one frontend.
type Exposure struct {
	Frontend Frontend
	Kind     Kind
}

// Endpoint is an address that serves a port. It is comparable.
type Endpoint struct {
	Addr        netip.AddrPort
	Local       bool // on this node
	Ready       bool
	Serving     bool
	Terminating bool
	NotHinted   bool // topology hints give it to clients of other nodes or zones alone
	Zone        string
	Node        string
	Pod         string // "namespace/name", empty when the slice names none
}

// Port is one port of one Service: its frontends, its endpoints and how clients are bound to them. It is immutable
// once stored; slices are sorted and without duplicates (exposures by frontend, endpoints by address).
type Port struct {
	Name            PortName
	Created         time.Time // of the Service: the older of two holds a contested frontend
	Exposures       []Exposure
	Endpoints       []Endpoint
	Affinity        time.Duration  // ClientIP affinity, sliding; 0 = none
	SourceRanges    []netip.Prefix // who may use the LoadBalancerIP frontends, as Merge has them: see Admits
	InternalLocal   bool           // internalTrafficPolicy Local: the ClusterIPs lead to endpoints of this node alone
	ExternalLocal   bool           // externalTrafficPolicy Local: so do the other frontends, for clients from outside
	HealthCheckPort uint16         // of the Service: load balancers ask there for endpoints of this node; 0 = none
	Mode            Mode           // how it is carried
	DebugUntil      *time.Time     // it is in userspace mode until then, whatever it is otherwise; nil: it is not debugged
	Policy          Policy
}

// Equal tells whether both describe the same state.
func (p *Port) Equal(o *Port) bool {
	return p.Name == o.Name && p.Created.Equal(o.Created) && p.Affinity == o.Affinity &&
		p.InternalLocal == o.InternalLocal && p.ExternalLocal == o.ExternalLocal && p.HealthCheckPort == o.HealthCheckPort &&
		p.Mode == o.Mode && equalMoments(p.DebugUntil, o.DebugUntil) &&
		slices.Equal(p.Exposures, o.Exposures) && slices.Equal(p.Endpoints, o.Endpoints) &&
		slices.Equal(p.SourceRanges, o.SourceRanges) && p.Policy.Equal(o.Policy)
}

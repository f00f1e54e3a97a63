// Package adminsocket is the admin API of a running portald, by which commands and portald top look into it, cut
// connections, drain endpoints and set the log level. It has the types of the answers, the HTTP handler and the client:
//
//	handler := adminsocket.NewHandler(adminsocket.Daemon{...}) // in the daemon, served at the socket
//	client := adminsocket.NewClient(adminsocket.DefaultSocket) // in a command
//	open, err := client.Connections(ctx, adminsocket.ConnectionQuery{})
//
// The JSON names of the types are the API, which others read too: see Version. The package does not know how the daemon
// comes by its answers.
package adminsocket

import (
	"net/netip"
	"time"
)

// Version is the major version of the API: the header HeaderVersion of each answer. Fields may be added to a version,
// and none is removed or changes its meaning.
const Version = "1"

// HeaderVersion is the header with the version.
const HeaderVersion = "Portald-Api"

// Connection is an open TCP connection or UDP session, of userspace mode or in the conntrack table of the kernel.
type Connection struct {
	ID          uint64         `json:"id"` // the record's; 0: the kernel carries it, and it has no record yet
	CarriedBy   string         `json:"carried_by"`
	Service     string         `json:"service"` // namespace/name:port
	Protocol    string         `json:"protocol"`
	State       string         `json:"state"` // a splice.ConnState; of the kernel's the TCP state
	Client      netip.AddrPort `json:"client"`
	ClientPod   string         `json:"client_pod,omitempty"` // namespace/name
	ClientNode  string         `json:"client_node,omitempty"`
	OriginalDst netip.AddrPort `json:"original_dst"`
	Portal      string         `json:"portal"`
	Proxy       netip.AddrPort `json:"proxy"`
	Endpoint    netip.AddrPort `json:"endpoint"`
	Pod         string         `json:"pod"` // namespace/name
	Node        string         `json:"node"`
	Start       time.Time      `json:"start"`
	LastMoved   time.Time      `json:"last_moved"` // when bytes last moved
	Attempts    int            `json:"attempts"`   // dials so far

	BytesFromClient   int64 `json:"bytes_from_client"`
	BytesToEndpoint   int64 `json:"bytes_to_endpoint"`
	BytesFromEndpoint int64 `json:"bytes_from_endpoint"`
	BytesToClient     int64 `json:"bytes_to_client"`

	ClientTCP   *TCP `json:"client_tcp,omitempty"` // nil: not requested, or not TCP
	EndpointTCP *TCP `json:"endpoint_tcp,omitempty"`
}

// TCP has the kernel's facts of a socket (TCP_INFO).
type TCP struct {
	RTTms        float64 `json:"rtt_ms"`
	RTTVarms     float64 `json:"rttvar_ms"`
	Retransmits  uint32  `json:"retransmits"` // segments, of the whole connection
	Lost         uint32  `json:"lost"`        // segments that are thought lost now
	DeliveryRate uint64  `json:"delivery_rate"`
}

// Service is a service port as this node serves it.
type Service struct {
	Name      string     `json:"name"` // namespace/name:port
	Protocol  string     `json:"protocol"`
	Mode      string     `json:"mode"`      // userspace or kernel
	ModeFrom  string     `json:"mode_from"` // annotation or default
	Frontends []Frontend `json:"frontends"`
	Endpoints int        `json:"endpoints"` // of the Service, of both families
	Usable    int        `json:"usable"`    // of those, which this node's clients may be led to
	Open      int        `json:"open"`      // connections and sessions of userspace mode
	Ended     uint64     `json:"ended"`     // since the start of the daemon
	Failed    uint64     `json:"failed"`    // of those, with an outcome other than ok
	BytesUp   uint64     `json:"bytes_up"`  // from clients: of connections that have ended, and so far of open ones
	BytesDown uint64     `json:"bytes_down"`
	Problem   string     `json:"problem,omitempty"` // why it, or part of it, is not served
}

// Frontend is one address that clients dial.
type Frontend struct {
	Address netip.AddrPort `json:"address"`
	Kind    string         `json:"kind"`             // ClusterIP, NodePort, ExternalIP, LoadBalancerIP
	Target  string         `json:"target"`           // redirect, spread, reject, drop
	Port    uint16         `json:"port,omitempty"`   // of a redirect: the proxy port
	Holder  string         `json:"holder,omitempty"` // the Service that holds it, if another does
}

// States of an endpoint beside used, terminating, not_ready, other_node, not_hinted and other_family.
const (
	Drained = "drained" // it is usable, and new connections of this node are kept away from it
	Ejected = "ejected" // it is usable, and failed connections of this node, which leaves it out for a while
	Removed = "removed" // it is none of the Service any more, and has connections yet
)

// Endpoint is an endpoint of a service port, as this node knows it.
type Endpoint struct {
	Service  string         `json:"service"`
	Protocol string         `json:"protocol"`
	Address  netip.AddrPort `json:"address"`
	Pod      string         `json:"pod"`
	Node     string         `json:"node"`
	Zone     string         `json:"zone"`
	State    string         `json:"state"` // one of those above, or used, terminating, …
	Open     int            `json:"open"`
	Dials    uint64         `json:"dials"` // what follows is of userspace mode, since the endpoint was first dialled
	Failures uint64         `json:"failures"`

	// Quantiles of the last thousand or so, null before the first.
	DialP50ms      *float64 `json:"dial_p50_ms"`
	DialP99ms      *float64 `json:"dial_p99_ms"`
	FirstByteP50ms *float64 `json:"first_byte_p50_ms"` // from the connect until the endpoint's first byte
	FirstByteP99ms *float64 `json:"first_byte_p99_ms"`

	EjectedFor   string     `json:"ejected_for,omitempty"` // refused, timed_out or reset
	EjectedUntil *time.Time `json:"ejected_until,omitempty"`

	LastError   string     `json:"last_error,omitempty"`
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`
}

// Info is the daemon itself.
type Info struct {
	Version  string    `json:"version"` // of portald
	API      string    `json:"api"`
	Node     string    `json:"node"`
	PID      int       `json:"pid"`
	Started  time.Time `json:"started"`
	Mode     string    `json:"mode"`
	Writer   string    `json:"writer"`
	LogLevel string    `json:"log_level"`
	Ready    bool      `json:"ready"`    // everything was applied once
	Instance string    `json:"instance"` // what its environment has as InstanceVariable; empty: nothing

	Disturbances Disturbances `json:"disturbances"`
}

// Disturbances counts changes of the daemon's rules by other programs since it started.
type Disturbances struct {
	Times   int       `json:"times"`             // that they were found changed
	Last    time.Time `json:"last"`              // when they were, zero: never
	Found   string    `json:"found,omitempty"`   // what was missing then, or should not have been there
	Missing bool      `json:"missing,omitempty"` // it is, and will be made good
	By      []string  `json:"by,omitempty"`      // who changed them lately, where that is known
}

// InstanceVariable is the environment variable that tells a daemon from the others that serve its node before and after
// it: the UID of its pod.
const InstanceVariable = "PORTALD_INSTANCE"

// Loglevel is the level of the daemon's own log.
type Loglevel struct {
	Level string `json:"level"`
}

// Cut names open connections and sessions to end by force, by their ids.
type Cut struct {
	IDs []uint64 `json:"ids"`
}

// CutResult says which connections were cut.
type CutResult struct {
	Cut     []uint64 `json:"cut"`     // end now, with the outcome cut
	Missing []uint64 `json:"missing"` // nothing of userspace mode is open by these ids
}

// Drain names an endpoint of which this node's new connections are kept away, until the daemon ends.
type Drain struct {
	Endpoint string `json:"endpoint"`          // address:port, address or pod
	Service  string `json:"service,omitempty"` // as in ServiceQuery; empty: all that it serves
	Force    bool   `json:"force,omitempty"`   // drain it even if it is the last one that clients have
}

// DrainResult says whether the endpoint was drained in each service port that it serves.
type DrainResult struct {
	Done    []DrainedEndpoint `json:"done"`
	Refused []DrainedEndpoint `json:"refused"`
}

// DrainedEndpoint is an endpoint of one service port.
type DrainedEndpoint struct {
	Service  string         `json:"service"`
	Protocol string         `json:"protocol"`
	Address  netip.AddrPort `json:"address"`
	Pod      string         `json:"pod"`
	Open     int            `json:"open"`          // connections and sessions that go on
	Why      string         `json:"why,omitempty"` // of one that is refused
}

// Failure is the answer to a request that failed.
type Failure struct {
	Error string `json:"error"`
}

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
	// EndpointState is that of the Endpoint (see there) in the Service now; empty: no endpoint was reached.
	EndpointState string    `json:"endpoint_state,omitempty"`
	Start         time.Time `json:"start"`
	LastMoved     time.Time `json:"last_moved"`    // when bytes last moved
	FirstByteMS   *float64  `json:"first_byte_ms"` // from Start until the endpoint's first byte; null: none came, or not known
	Attempts      int       `json:"attempts"`      // dials so far

	BytesFromClient   int64 `json:"bytes_from_client"`
	BytesToEndpoint   int64 `json:"bytes_to_endpoint"`
	BytesFromEndpoint int64 `json:"bytes_from_endpoint"`
	BytesToClient     int64 `json:"bytes_to_client"`

	ClientTCP   *TCP `json:"client_tcp,omitempty"` // nil: not requested, or not TCP
	EndpointTCP *TCP `json:"endpoint_tcp,omitempty"`

	PortaldNode string `json:"portald_node,omitempty"` // of the portald that says so, where several were asked
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
	ModeFrom  string     `json:"mode_from"` // annotation, default, or debug: until DebugUntil it is in userspace mode
	Frontends []Frontend `json:"frontends"`
	Endpoints int        `json:"endpoints"` // of the Service, of both families
	Usable    int        `json:"usable"`    // of those, which this node's clients are led to now

	DebugUntil *time.Time `json:"debug_until,omitempty"` // of the annotation portald.io/debug-until, while it counts
	// KeepPayload says of which connections payload is kept, by the annotation portald.io/keep-payload, while it counts.
	KeepPayload string `json:"keep_payload,omitempty"`

	// What follows is null where it is not known. Of what the kernel carries Open is of its conntrack table, and the rest
	// is of its records, if there are any.
	Open      *int    `json:"open"`     // connections and sessions
	Ended     *uint64 `json:"ended"`    // since the start of the daemon
	Failed    *uint64 `json:"failed"`   // of those, with an outcome other than ok
	BytesUp   *uint64 `json:"bytes_up"` // from clients: of connections that have ended, and so far of open ones
	BytesDown *uint64 `json:"bytes_down"`
	// FailedDials are of connections and sessions that have ended, and Replays requests that were sent again to another
	// endpoint since the first did not respond.
	FailedDials *uint64 `json:"failed_dials"`
	Replays     *uint64 `json:"replays"`
	// FirstByte counts the times from the connect until the endpoint's first byte; null before the first one.
	FirstByte *Histogram `json:"first_byte"`
	// RefusedPackets are those of clients that rules refused or dropped, for want of an endpoint or of being served.
	RefusedPackets *uint64 `json:"refused_packets"`
	// ReceiveBufferErrors are datagrams that the kernel dropped because a receive buffer of portald was full.
	ReceiveBufferErrors *uint64 `json:"receive_buffer_errors"`

	Problem  string   `json:"problem,omitempty"`  // the most important one: why clients are not served, or not as asked
	Problems []string `json:"problems,omitempty"` // all, the most important first
}

// Histogram counts durations: of a Service since the start of the daemon, of an endpoint the last thousand or so. Those
// of several nodes can be added up, if their bounds are the same.
type Histogram struct {
	BoundsMS []float64 `json:"bounds_ms"`
	Counts   []uint64  `json:"counts"` // up to each bound, from the one before; and as the last one, longer ones
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

	// Since is when the endpoint became what State says, or what its slice says; null: before all changes that are kept.
	Since *time.Time `json:"since"`

	// What follows is null where it is not known. Of what the kernel carries Open is of its conntrack table, and Dials and
	// Failures are of its records, if there are any; Dials are the connections that have ended.
	Open     *int    `json:"open"`
	Dials    *uint64 `json:"dials"` // since the endpoint was first dialled
	Failures *uint64 `json:"failures"`

	// Quantiles of the last thousand or so, null before the first, and of what the kernel carries.
	DialP50ms      *float64 `json:"dial_p50_ms"`
	DialP99ms      *float64 `json:"dial_p99_ms"`
	FirstByteP50ms *float64 `json:"first_byte_p50_ms"` // from the connect until the endpoint's first byte
	FirstByteP99ms *float64 `json:"first_byte_p99_ms"`

	// Counts of these times, from which quantiles of several nodes are made.
	DialTimes      *Histogram `json:"dial_times,omitempty"`
	FirstByteTimes *Histogram `json:"first_byte_times,omitempty"`

	// Of TCP connections of userspace mode that have ended, null before the first: the mean of their smoothed round-trip
	// times to the endpoint, segments that were sent again to it, and segments of it that came out of order.
	RTTms       *float64 `json:"rtt_ms"`
	Retransmits *uint64  `json:"retransmits"`
	OutOfOrder  *uint64  `json:"out_of_order"`

	EjectedFor   string     `json:"ejected_for,omitempty"` // refused, timed_out or reset
	EjectedUntil *time.Time `json:"ejected_until,omitempty"`

	LastError   string     `json:"last_error,omitempty"`
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`

	// States are how many nodes say what it is, where several were asked that do not agree. State is the first of them by
	// name then, or used.
	States map[string]int `json:"states,omitempty"`
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
	// ServiceProxyName is the label's value of the Services that it serves alongside the cluster's service proxy; empty:
	// it is that.
	ServiceProxyName string `json:"service_proxy_name,omitempty"`

	RecordsSince  time.Time `json:"records_since"`            // no record that ended later is missing in memory
	ConnectionLog string    `json:"connection_log,omitempty"` // its path, - for standard error; empty: none

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

	PortaldNode string `json:"portald_node,omitempty"` // where they are open; a daemon by itself ignores it
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
	Open     *int           `json:"open"`          // connections and sessions that go on; null: not known
	Why      string         `json:"why,omitempty"` // of one that is refused

	PortaldNode string `json:"portald_node,omitempty"` // as in Connection
}

// Failure is the answer to a request that failed.
type Failure struct {
	Error string `json:"error"`
}

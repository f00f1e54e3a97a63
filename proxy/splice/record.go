package splice

import (
	"net/netip"
	"syscall"
	"time"

	"github.com/portald/portald/proxy/service"
)

// Record is one finished connection or UDP session. It is written once and not changed after it was reported.
type Record struct {
	ID                uint64 // unique within one run of the daemon
	CarriedBy         CarriedBy
	Start             time.Time
	Service           service.PortName
	Client            netip.AddrPort
	ClientPod         string // "namespace/name"; this and the next two are empty where they are not known
	ClientNode        string
	ClientZone        string
	OriginalDst       netip.AddrPort // what the client dialled; zero when it is not known
	Portal            service.Kind   // the kind of OriginalDst; of no meaning with OutcomeNotPortal
	Endpoint          service.Endpoint
	Logging           service.Logging // how its service port is logged, complete
	Attempts          []Attempt       // in order; at most maxAttempts that failed; the last one worked if its Err is empty
	Ejected           int             // endpoints that were left out of the last choice, since they failed others
	Replays           int             // how often what the client had sent was sent again, to another endpoint
	Affinity          string          // "", or how ClientIP affinity bound the client: see balance
	BytesFromClient   int64           // read of it
	BytesToEndpoint   int64           // of those, what the kernel took for the last endpoint, which may not have got all
	BytesFromEndpoint int64
	BytesToClient     int64
	Connect           time.Duration // from accept until an endpoint was connected; negative: never
	FirstByte         time.Duration // from accept until the endpoint's first byte; negative: none came
	Duration          time.Duration
	Waited            time.Duration // of Connect, or of Duration if that is negative: for an endpoint
	ClosedBy          Side
	CloseType         CloseType
	Outcome           Outcome
	Error             string        // of the socket that broke, in the kernel's words; empty: none did
	Errno             syscall.Errno // of Error; 0: it is not known, or none did
	ClientTCP         TCPInfo       // of the socket to the client at the end
	EndpointTCP       TCPInfo
	ClientBlocked     time.Duration // how long bytes of the endpoint waited because the client did not take them
	EndpointBlocked   time.Duration // how long bytes of the client waited because the endpoint did not take them
}

// CarriedBy is what moved the bytes of a connection.
type CarriedBy string

// What carries connections.
const (
	Userspace CarriedBy = "userspace" // an Engine
	Kernel    CarriedBy = "kernel"    // rules of the kernel: it counts, and there is no Conn
)

// Proxy is our own address and port towards the endpoint that was reached, zero when none was: what the endpoint's log
// and a capture there show.
func (r *Record) Proxy() netip.AddrPort {
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].Err == "" {
		return r.Attempts[n-1].Proxy
	}
	return netip.AddrPort{}
}

// Attempt is one dial of one endpoint, or several that failed alike.
type Attempt struct {
	Endpoint netip.AddrPort
	Proxy    netip.AddrPort // our own address and port, of the last of them; zero when it did not come to that
	Took     time.Duration  // all of them together
	Err      string         // empty: it worked
	Times    int32
	Hedge    bool // it began while another dial was under way: see hedge-after
	Probe    bool // the endpoint was ejected, and was tried again
	Ejected  bool // the endpoint was ejected for this failure, or (of one that worked) for how the connection ended
}

// Overtaken is the Err of a dial that was closed unused, since another one was answered first.
const Overtaken = "overtaken"

// Failed tells whether its endpoint was not reached, and not just later than another.
func (a *Attempt) Failed() bool { return a.Err != "" && a.Err != Overtaken }

// Side is who ended a connection first.
type Side string

// The sides. The proxy ends what it refuses, what timed out and what a drain cuts.
const (
	Client   Side = "client"
	Endpoint Side = "endpoint"
	Proxy    Side = "proxy"
)

// CloseType is how the connection was closed.
type CloseType string

// The close types.
const (
	FIN     CloseType = "fin"
	Reset   CloseType = "reset"
	Timeout CloseType = "timeout"
)

// Outcome is how a connection ended, from a closed set of words: the label of metrics.
type Outcome string

// The outcomes.
const (
	OutcomeOK              Outcome = "ok"                 // both streams ended by FIN; UDP: the idle timeout
	OutcomeClientReset     Outcome = "client_reset"       // the client reset the connection
	OutcomeEndpointReset   Outcome = "endpoint_reset"     // the endpoint reset it, or refused a UDP datagram
	OutcomeClientLost      Outcome = "client_lost"        // no answer of its host: keepalive or retransmission timeout
	OutcomeEndpointLost    Outcome = "endpoint_lost"      // the same of the endpoint's
	OutcomeHalfClosed      Outcome = "half_close_timeout" // one stream ended, and no byte came on the other
	OutcomeIdle            Outcome = "idle_timeout"       // no byte either way for the idle timeout (TCP)
	OutcomeDialFailed      Outcome = "dial_failed"        // every attempt failed
	OutcomeNoEndpoint      Outcome = "no_endpoint"        // the service port had none
	OutcomeWaitLimit       Outcome = "wait_limit"         // it waited for one, and too many of its Service did
	OutcomeNotPortal       Outcome = "not_a_portal"       // the client connected to the proxy port itself
	OutcomeSourceRange     Outcome = "source_range"       // loadBalancerSourceRanges leave the client out
	OutcomeLimit           Outcome = "limit"              // MaxConnections of the policy; UDP: evicted for another
	OutcomeClientLimit     Outcome = "client_limit"       // MaxConnectionsPerClient of the policy
	OutcomeRate            Outcome = "rate"               // ConnectionRate of the policy
	OutcomeClientRate      Outcome = "client_rate"        // ConnectionRatePerClient of the policy
	OutcomeResources       Outcome = "resources"          // out of descriptors, ports or memory
	OutcomeEndpointRemoved Outcome = "endpoint_removed"   // its endpoint went away (TCP: where the policy says so)
	OutcomeMaxAge          Outcome = "max_age"            // MaxAge of the policy, at a quiet moment
	OutcomeServiceRemoved  Outcome = "service_removed"    // a UDP session whose service port went away
	OutcomeCut             Outcome = "cut"                // ended by force, as at the end of a drain
	OutcomeReset           Outcome = "reset"              // carried by the kernel, which does not tell who reset it
	OutcomeUnanswered      Outcome = "unanswered"         // carried by the kernel: a UDP flow without any answer
)

// Outcomes lists all outcomes.
func Outcomes() []Outcome {
	return []Outcome{OutcomeOK, OutcomeClientReset, OutcomeEndpointReset, OutcomeClientLost, OutcomeEndpointLost,
		OutcomeHalfClosed, OutcomeIdle, OutcomeDialFailed, OutcomeNoEndpoint, OutcomeWaitLimit, OutcomeNotPortal,
		OutcomeSourceRange, OutcomeLimit, OutcomeClientLimit, OutcomeRate, OutcomeClientRate, OutcomeResources,
		OutcomeEndpointRemoved, OutcomeServiceRemoved, OutcomeCut, OutcomeReset, OutcomeUnanswered, OutcomeMaxAge}
}

// Well tells whether it is no failure: a connection that is closed for its age had all that it wanted.
func (o Outcome) Well() bool { return o == OutcomeOK || o == OutcomeMaxAge }

// Observer gets the record of each connection and UDP session when it has ended, exactly once. It is called on the data
// path, by several goroutines at once: it must not block. It may keep the record, and must not change it.
type Observer interface{ Observe(*Record) }

// ObserverFunc is a function that observes.
type ObserverFunc func(*Record)

// Observe implements Observer.
func (f ObserverFunc) Observe(r *Record) { f(r) }

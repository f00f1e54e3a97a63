// Package record has the facts of connections and UDP sessions: the Record of one that has ended, and Live for one that
// is open. The data path and the kernel's flows make them; logs, metrics, the admin API and portald explain read them,
// and so need not import the data path.
//
//	var observer record.Observer = record.ObserverFunc(func(r *record.Record) {
//		if r.Outcome != record.OutcomeOK { // r is read only, and the data path waits for this call
//			failures.Add(1)
//		}
//	})
//
// The package knows neither who carries connections nor how records are written.
package record

import (
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/portald/portald/portal/service"
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

// CarriedBy says who moved the bytes of a connection: this daemon or the kernel.
type CarriedBy string

// The values of CarriedBy.
const (
	Userspace CarriedBy = "userspace" // the daemon itself
	Kernel    CarriedBy = "kernel"    // rules of the kernel: it counts what passes
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

// What Err has of dials that no error of the system ended.
const (
	Overtaken = "overtaken" // closed unused, since another one was answered first
	TimedOut  = "timeout"   // nothing came in the time that a dial has
)

// Refused tells whether a host answered that nothing listens there.
func (a *Attempt) Refused() bool { return a.Err == refused }

// Reset tells whether an endpoint accepted it, and reset it before that was noticed: what a host does not accept, it
// refuses.
func (a *Attempt) Reset() bool { return a.Err == reset }

// Unreachable tells whether the network said that it leads to no such host.
func (a *Attempt) Unreachable() bool { return slices.Contains(unreachable, a.Err) }

// Forbidden tells whether this host itself did not let it out.
func (a *Attempt) Forbidden() bool { return slices.Contains(forbidden, a.Err) }

// Failed tells whether its endpoint was not reached, and not just later than another.
func (a *Attempt) Failed() bool { return a.Err != "" && a.Err != Overtaken }

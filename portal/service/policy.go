package service

import (
	"slices"
	"time"
)

// Policy is how the connections of a service port are carried, in userspace mode unless a field says otherwise, as far
// as its Service sets it: a zero field leaves it to the daemon. Settings says how each field is written.
type Policy struct {
	ConnectTimeouts []time.Duration // one dial each
	Dials           int             // how many, where that is set apart from ConnectTimeouts
	HedgeAfter      time.Duration   // of a TCP dial without an answer, until another is begun beside it; Never
	HalfClose       time.Duration   // silence after one direction ended; Never
	Idle            time.Duration   // silence of an open TCP connection; Never
	UDPIdle         time.Duration   // silence of a UDP session; Never
	MaxConnections  int             // live connections or UDP sessions in one address family; negative: no limit
	ClientAddress   ClientAddress
	Algorithm       Algorithm     // in both modes
	SlowStart       time.Duration // during which a new endpoint gets fewer new connections; Never
	EjectAfter      int           // failures in a row after which an endpoint is left out; negative: never
	EjectOn         EjectOn
	RetryBudget     int // further dials that may fail, in percent of the connections; negative: no limit
	Logging         Logging
	KernelRecords   Records // in kernel mode
	Shares          Shares
	Removed         RemovedEndpoint
	DeadPeer        time.Duration // without an answer of a host
	MaxAge          Age
	RetryOn         RetryOn
	WaitForEndpoint time.Duration // how long a new connection waits for one; Never: it does not
	Wake            Wake          // what is scaled then
	KeepPayload     KeepPayload   // of TCP connections
}

// Never is a timeout that does not come.
const Never time.Duration = -1

// DefaultPolicy is the daemon's policy where neither its configuration nor a flag sets it.
func DefaultPolicy() Policy {
	var p Port
	for _, s := range Settings() {
		s.Value.setDefault(&p)
	}
	return p.Policy
}

// Equal tells whether both are the same.
func (p Policy) Equal(o Policy) bool {
	return slices.Equal(p.ConnectTimeouts, o.ConnectTimeouts) && p.Dials == o.Dials && p.HedgeAfter == o.HedgeAfter &&
		p.HalfClose == o.HalfClose && p.Idle == o.Idle && p.UDPIdle == o.UDPIdle && p.MaxConnections == o.MaxConnections &&
		p.ClientAddress == o.ClientAddress && p.Algorithm == o.Algorithm && p.SlowStart == o.SlowStart &&
		p.EjectAfter == o.EjectAfter && p.EjectOn == o.EjectOn && p.RetryBudget == o.RetryBudget && p.Logging == o.Logging &&
		p.KernelRecords == o.KernelRecords && p.Shares == o.Shares && p.Removed == o.Removed && p.DeadPeer == o.DeadPeer &&
		p.MaxAge == o.MaxAge && p.RetryOn == o.RetryOn && p.WaitForEndpoint == o.WaitForEndpoint && p.Wake == o.Wake &&
		p.KeepPayload == o.KeepPayload
}

// Or fills in what p does not set from the defaults, in which Dials is 0, and makes ConnectTimeouts one for each dial:
// the last is repeated where there are more dials.
func (p Policy) Or(defaults Policy) Policy {
	if len(p.ConnectTimeouts) == 0 {
		p.ConnectTimeouts = defaults.ConnectTimeouts
	}
	if p.Dials > 0 && len(p.ConnectTimeouts) > 0 {
		p.ConnectTimeouts, p.Dials = resized(p.ConnectTimeouts, p.Dials), 0
	}
	fill(&p.HedgeAfter, defaults.HedgeAfter)
	fill(&p.HalfClose, defaults.HalfClose)
	fill(&p.Idle, defaults.Idle)
	fill(&p.UDPIdle, defaults.UDPIdle)
	fill(&p.MaxConnections, defaults.MaxConnections)
	fill(&p.ClientAddress, defaults.ClientAddress)
	fill(&p.Algorithm, defaults.Algorithm)
	fill(&p.SlowStart, defaults.SlowStart)
	fill(&p.EjectAfter, defaults.EjectAfter)
	fill(&p.EjectOn, defaults.EjectOn)
	fill(&p.RetryBudget, defaults.RetryBudget)
	fill(&p.Logging.Records, defaults.Logging.Records)
	fill(&p.Logging.Sample, defaults.Logging.Sample)
	fill(&p.KernelRecords, defaults.KernelRecords)
	p.Shares = p.Shares.or(defaults.Shares)
	fill(&p.Removed, defaults.Removed)
	fill(&p.DeadPeer, defaults.DeadPeer)
	fill(&p.MaxAge, defaults.MaxAge)
	fill(&p.RetryOn, defaults.RetryOn)
	fill(&p.WaitForEndpoint, defaults.WaitForEndpoint)
	fill(&p.Wake, defaults.Wake)
	fill(&p.KeepPayload, defaults.KeepPayload)
	return p
}

func resized(times []time.Duration, n int) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = times[min(i, len(times)-1)]
	}
	return out
}

func fill[T comparable](field *T, fallback T) {
	var unset T
	if *field == unset {
		*field = fallback
	}
}

// ClientAddress is how an endpoint learns the client's address.
type ClientAddress uint8

// The ways. AddressTransparent needs replies to be routed through this node.
const (
	AddressDefault     ClientAddress = iota // the daemon's setting
	AddressNode                             // not at all: it sees this node
	AddressTransparent                      // connections come from the client's own address
	AddressProxyV2                          // a PROXY protocol v2 header comes first; TCP only
)

// String is the word that settings use.
func (a ClientAddress) String() string {
	switch a {
	case AddressNode:
		return "node"
	case AddressTransparent:
		return "transparent"
	case AddressProxyV2:
		return "proxy-v2"
	}
	return ""
}

// ParseClientAddress reads the word that String writes; false when it is none.
func ParseClientAddress(word string) (ClientAddress, bool) {
	for _, a := range []ClientAddress{AddressNode, AddressTransparent, AddressProxyV2} {
		if word == a.String() {
			return a, true
		}
	}
	return AddressDefault, false
}

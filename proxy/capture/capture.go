// Package capture captures packets of connections to Services: those between a client and a frontend, and those between
// this node and an endpoint. It tells by the records of connections to which one a packet belongs, keeps packets in
// memory until that is known, and on request until it is known how the connection ended. It does not know where packets
// come from: see Source.
//
//	err := capture.Run(ctx, node, &capture.Request{Targets: []string{"shop/cart"}}, output)
package capture

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/portald/portald/platform/packetfilter"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/record"
)

// Request says what to capture, and when to end: at the first of the limits.
type Request struct {
	Targets  []string      `json:"targets"`            // see ParseTarget; one of them is enough
	Outcomes []string      `json:"outcomes,omitempty"` // only of connections that end so; OutcomeFailed: that fail
	Filter   string        `json:"filter,omitempty"`   // see packetfilter.Parse
	Payload  bool          `json:"payload,omitempty"`  // with the payload, not only the headers
	Packets  int64         `json:"packets"`
	Bytes    int64         `json:"bytes"` // of packets, as they are kept
	Duration time.Duration `json:"duration"`
}

// OutcomeFailed stands for all outcomes of failures.
const OutcomeFailed = "failed"

// The limits of limits.
const (
	MaxPackets  = 10_000_000
	MaxBytes    = 1 << 30
	MaxDuration = time.Hour
	maxTargets  = 16
)

// plan is a Request that was checked.
type plan struct {
	*Request
	targets []Target
	filter  packetfilter.Expr // nil: none
}

// Check returns what is wrong with a request.
func (r *Request) Check() error {
	_, err := r.plan()
	return err
}

func (r *Request) plan() (*plan, error) {
	p := &plan{Request: r}
	if len(r.Targets) == 0 || len(r.Targets) > maxTargets {
		return nil, fmt.Errorf("%d targets: name between 1 and %d Services, pods or clients", len(r.Targets), maxTargets)
	}
	for _, text := range r.Targets {
		t, err := ParseTarget(text)
		if err != nil {
			return nil, err
		}
		p.targets = append(p.targets, t)
	}
	for _, o := range r.Outcomes {
		if o != OutcomeFailed && !slices.Contains(record.Outcomes(), record.Outcome(o)) {
			return nil, fmt.Errorf("outcome %q: must be an outcome of records, such as %s, or %s", o,
				record.OutcomeEndpointReset, OutcomeFailed)
		}
	}
	if r.Filter != "" {
		var err error
		if p.filter, err = packetfilter.Parse(r.Filter); err != nil {
			return nil, fmt.Errorf("filter %q: %w", r.Filter, err)
		}
	}
	return p, errors.Join(limit("packets", r.Packets, MaxPackets), limit("bytes", r.Bytes, MaxBytes),
		limit("duration", r.Duration, MaxDuration))
}

func limit[T int64 | time.Duration](what string, n, most T) error {
	if n < 1 || n > most {
		return fmt.Errorf("%s %v: must be between 1 and %v", what, n, most)
	}
	return nil
}

// wants tells whether packets of a connection that ended so are wanted.
func (p *plan) wantsOutcome(outcome string) bool {
	return slices.ContainsFunc(p.Outcomes, func(o string) bool {
		return o == outcome || o == OutcomeFailed && !record.Outcome(outcome).Well()
	})
}

// Target is what is captured. One of its fields is set.
type Target struct {
	Service string       // [namespace/]name[:port], * for any part
	Pod     string       // an endpoint or a client, [namespace/]name
	Client  string       // a client's pod
	From    netip.Prefix // clients
	Address netip.Prefix // clients, frontends or endpoints
}

// ParseTarget reads [NAMESPACE/]SERVICE[:PORT], pod/NAMESPACE/POD, client/NAMESPACE/POD, client/ADDRESS, or an address
// or CIDR of any side.
func ParseTarget(text string) (t Target, err error) {
	if client, ok := strings.CutPrefix(text, "client/"); ok {
		if t.From, err = prefix(client); err != nil {
			t.Client = client
		}
		return t, name(text, client, err != nil)
	}
	if pod, ok := strings.CutPrefix(text, "pod/"); ok {
		t.Pod = pod
		return t, name(text, pod, true)
	}
	if t.Address, err = prefix(text); err == nil {
		return t, nil
	}
	t.Service = text
	for _, kind := range []string{"service/", "svc/"} {
		t.Service = strings.TrimPrefix(t.Service, kind)
	}
	return t, name(text, t.Service, true)
}

func prefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return a.Unmap().Prefix(a.Unmap().BitLen())
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

// name checks a name, if it is one.
func name(text, name string, is bool) error {
	if is && (name == "" || strings.Count(name, "/") > 1 || len(name) > 512 || strings.ContainsAny(name, " \t\n")) {
		return fmt.Errorf("%q: must be a Service such as shop/cart, pod/NAMESPACE/POD, client/NAMESPACE/POD, "+
			"client/ADDRESS, an address or a CIDR", text)
	}
	return nil
}

// mayBe tells whether connections to a service port may be meant.
func (t *Target) mayBe(service string) bool {
	return t.Service == "" || connlog.IsService(t.Service, service)
}

// is tells whether a connection is meant.
func (t *Target) is(c *Connection) bool {
	in := func(p netip.Prefix, any ...netip.AddrPort) bool {
		return slices.ContainsFunc(any, func(a netip.AddrPort) bool { return p.Contains(a.Addr().Unmap()) })
	}
	switch {
	case t.Service != "":
		return connlog.IsService(t.Service, c.Service)
	case t.Pod != "":
		return connlog.IsName(t.Pod, c.Pod) || connlog.IsName(t.Pod, c.ClientPod)
	case t.Client != "":
		return connlog.IsName(t.Client, c.ClientPod)
	case t.From.IsValid():
		return in(t.From, c.Client)
	}
	return in(t.Address, c.Client, c.Frontend, c.Endpoint)
}

// Connection is what is known of the connection that packets belong to.
type Connection struct {
	ID        uint64         `json:"id,omitempty"` // of its record; 0: it has none yet
	Service   string         `json:"service"`      // namespace/name:port
	Protocol  string         `json:"protocol"`
	CarriedBy string         `json:"carried_by,omitempty"` // empty: nobody yet, or it was refused
	Client    netip.AddrPort `json:"client"`
	ClientPod string         `json:"client_pod,omitempty"`
	Frontend  netip.AddrPort `json:"frontend"`
	Proxy     netip.AddrPort `json:"proxy"`
	Endpoint  netip.AddrPort `json:"endpoint"`
	Pod       string         `json:"pod,omitempty"`
	Node      string         `json:"node,omitempty"`
	Outcome   string         `json:"outcome,omitempty"` // empty: it is open, or that is not known
}

// Side is where a packet was seen.
type Side uint8

// The sides.
const (
	ClientSide   Side = 1 // between the client and the frontend
	EndpointSide Side = 2 // between this node, or the client, and the endpoint
)

// String says it in words.
func (s Side) String() string {
	switch s {
	case ClientSide:
		return "client side"
	case EndpointSide:
		return "endpoint side"
	}
	return "unknown side"
}

// Statistics count what became of packets.
type Statistics struct {
	Packets       int64  `json:"packets"` // passed on
	Bytes         int64  `json:"bytes"`   // of these, as they were kept
	KernelSeen    uint64 `json:"kernel_seen"`
	KernelDropped uint64 `json:"kernel_dropped"` // the kernel had no room for them
	Evicted       int64  `json:"evicted"`        // there was no room to keep them until more is known of their connection
	Unwanted      int64  `json:"unwanted"`       // of other connections, or of ones with another outcome
	Open          int64  `json:"open"`           // of connections that were still open at the end
	Untracked     int64  `json:"untracked"`      // connections of which too many were open, or of which news was lost
}

// End says why a capture ended, and what it had.
type End struct {
	Why        string `json:"why"`
	Statistics `json:"statistics"`
}

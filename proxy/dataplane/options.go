package dataplane

import (
	"context"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Options of a Dataplane.
type Options struct {
	Writer            portal.Writer
	Userspace, Kernel Carrier      // nil: service ports of that mode refuse their clients
	Mode              service.Mode // of service ports that set none

	// DeleteFlows deletes the flows of a query that stale accepts from the kernel's conntrack table, and returns how many.
	// nil = the kernel translates nothing.
	DeleteFlows func(ctx context.Context, q inet.FlowQuery, stale func(inet.Flow) bool) (int, error)
	// FlowPeriod is how often Sweep looks for stale flows of all frontends; 0 = never.
	FlowPeriod time.Duration
	// Own tells whether an address is this host's: NodePorts are served there.
	Own func(netip.Addr) bool
	// Inherits tells at a Resync whether the host may have what an earlier run wrote for the same listeners. If that is
	// exactly what a Writer that adopts would write, it goes on with it; otherwise it writes all. nil = never.
	Inherits func() bool

	// These report events, on the goroutine that calls the Dataplane; nil = to nobody.
	Serving     func(*service.Port)    // a service port is new or changed, and nothing was done for it yet
	Contested   func(portal.Conflict)  // a service port claims an address that another Service owns
	Refused     func(Refusal)          // a service port cannot be served as its Service says, or can again
	Quarantined func(int)              // after each sync: how many service ports are in quarantine
	Closed      func(service.PortName) // a service port is no longer served
	Warn        func(error)            // stale flows could not be looked for
	Adopted     func(error)            // the Writer goes on with what an earlier run wrote; or why not, and writes all
	Rewritten   func(error)            // a change failed, and all was written again: others have changed the host's rules
}

// withDefaults returns options in which no func of an event is nil.
func (o Options) withDefaults() Options {
	if o.Inherits == nil {
		o.Inherits = func() bool { return false }
	}
	if o.Serving == nil {
		o.Serving = func(*service.Port) {}
	}
	if o.Contested == nil {
		o.Contested = func(portal.Conflict) {}
	}
	if o.Refused == nil {
		o.Refused = func(Refusal) {}
	}
	if o.Quarantined == nil {
		o.Quarantined = func(int) {}
	}
	if o.Closed == nil {
		o.Closed = func(service.PortName) {}
	}
	if o.Warn == nil {
		o.Warn = func(error) {}
	}
	if o.Adopted == nil {
		o.Adopted = func(error) {}
	}
	if o.Rewritten == nil {
		o.Rewritten = func(error) {}
	}
	return o
}

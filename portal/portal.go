// Package portal says where the flows to frontends go. A Portal is a frontend and its Target; the Table decides which
// Service holds a contested frontend; a Writer puts portals into one facility of the host. It does not know how traffic
// is carried behind a target.
package portal

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// Target is where the flows of a portal go: Redirect, Spread, Reject or Drop. Targets are comparable.
type Target interface{ target() }

// Redirect sends flows to the daemon's listener at this local port. With Inside it does so only for clients inside the
// cluster, which are this node and the pods, and drops the flows of others.
type Redirect struct {
	Port   uint16
	Inside bool
}

// Reject answers with "connection refused".
type Reject struct{}

// Drop answers nothing: with a Local traffic policy and no endpoint here, the client may try another node.
type Drop struct{}

func (Redirect) target() {}
func (Reject) target()   {}
func (Drop) target()     {}

// Portal is a frontend and its target. It is comparable.
type Portal struct {
	Frontend service.Frontend
	Kind     service.Kind
	Owner    service.PortName
	Target   Target
}

// Change is the newest state of one frontend; Portal is nil when it has no portal any more. Was is what it had before,
// nil for none; Writers do not go by it.
type Change struct {
	Frontend service.Frontend
	Portal   *Portal
	Was      *Portal
}

// ErrUnknown is the error of an Update or Audit while it is not known what the host holds: before the first Replace
// or Adopt, and after an error until a Replace succeeds.
var ErrUnknown = errors.New("what the host holds is not known: Replace comes first")

// Writer puts portals into one facility of the host. One goroutine calls it.
type Writer interface {
	// Guard says at which proxy ports listeners of the daemon were opened (true) and closed. From the next Replace or
	// Update on, in its transaction, open ones accept new flows that a portal redirected, and refuse others. A Writer does
	// not touch other ports.
	Guard(map[ProxyPort]bool)
	// Replace makes the host hold exactly these portals, whatever it held before, leftovers of an earlier run included.
	// Flows of portals that stay are not interrupted.
	Replace(ctx context.Context, portals []Portal) error
	// Update applies changes to what the last Replace and Updates left, at a cost that does not grow with the number
	// of portals. After an error the host's state is unknown, and only Replace may follow.
	Update(ctx context.Context, changes []Change) error
}

// Cleaner is a Writer that can remove what it wrote.
type Cleaner interface {
	// Cleanup removes everything that this or an earlier run wrote, and nothing else.
	Cleanup(ctx context.Context) error
}

// Auditor is a Writer that can tell whether the host still holds what was written.
type Auditor interface {
	// Audit returns an error that says what is missing or should not be there; nil when all is as written.
	Audit(ctx context.Context) error
	// Disturbed tells whether others may have changed what was written since it was written or audited last. It takes a
	// few system calls, however much was written, and is false where that is not enough to tell.
	Disturbed() bool
}

// Witness is a Writer that can tell who changes what it wrote, where the kernel tells who listens.
type Witness interface {
	// Watch listens from now on for so long. That makes transactions of all programs more expensive.
	Watch(time.Duration)
	// Culprits are whom it saw, the last one first. Any goroutine may ask.
	Culprits() []Culprit
	// Listen receives what it is told until ctx ends.
	Listen(ctx context.Context) error
}

// Culprit is a program that changed what a Writer wrote.
type Culprit struct {
	Process string // its name, of which the kernel keeps 15 characters
	PID     int    // the last one, as the kernel numbers it
	Parent  string // who started that, as "bash (pid 12)"; empty: not known
	Times   int    // it was seen
	Last    time.Time
}

func (c Culprit) String() string {
	text := fmt.Sprintf("%s (pid %d)", c.Process, c.PID)
	if c.Parent != "" {
		text += " of " + c.Parent
	}
	return text
}

// Adopter is a Writer that can go on with what an earlier run wrote.
type Adopter interface {
	// Adopt takes these portals, and the proxy ports that Guard was told of, for written, as after a Replace, if the host
	// holds exactly what a Replace would leave there, and writes no rule. Otherwise it returns an error that says what
	// differs; nothing is known then, and Replace comes next. What an earlier run keeps for open connections may be there
	// too, and is looked after as its own would be. Nobody else may be writing rules for the Writer meanwhile.
	Adopt(ctx context.Context, portals []Portal) error
}

// Checker is a Writer that can tell in advance that a portal cannot be written.
type Checker interface {
	// Check returns an error that names the portal and what is wrong with it; nil if nothing is found.
	Check(Portal) error
}

// Opener is a Writer that can let flows to servers of this host in.
type Opener interface {
	// Open says at which TCP ports the daemon answers health checks of load balancers (true), and where it does no longer.
	// From the next Replace or Update on, in its transaction, new flows to those ports are let in, whatever the host's own
	// rules say.
	Open(map[uint16]bool)
}

// Capabilities are what a Writer found that this host can do. Any goroutine may ask for them.
type Capabilities interface {
	// IPv6 tells whether portals of IPv6 can be written. Those of IPv4 always can.
	IPv6() bool
	// Diverts tells whether replies to clients' addresses that the daemon dials from are marked in that family.
	Diverts(family inet.Family) bool
	// Offers tells whether portals that spread can choose endpoints by an algorithm, in every family that is served. The
	// Writer's own way, AlgorithmDefault, is always there. To find out may take as long as to load a module of the kernel.
	Offers(service.Algorithm) bool
}

// Adjustable is a Writer whose Settings change while it is in use. A change takes effect at the next Replace, and may
// be made from any goroutine.
type Adjustable interface {
	SetLocalDetector(LocalDetector) error
	SetNodePortAddresses([]netip.Prefix) (changed bool)
	SetMark(uint32)
}

// HostWriter is the whole of a Writer of this host's facilities.
type HostWriter interface {
	Writer
	Cleaner
	Auditor
	Checker
	Capabilities
	Adjustable
}

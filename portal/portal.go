// Package portal says where frontends lead. A Portal is a frontend and its Target; the Table decides who holds a
// contested frontend; a Writer puts portals into one facility of the host. It does not know how traffic is carried
// behind a target.
package portal

import (
	"context"
	"errors"
	"net/netip"

	"github.com/portald/portald/proxy/service"
)

// Target is where a portal leads: Redirect, Spread, Reject or Drop. Targets are comparable.
type Target interface{ target() }

// Redirect leads to the listener of the daemon at this local port: everyone, or with Inside only clients inside the
// cluster, which are this node and the pods; it drops what the others send.
type Redirect struct {
	Port   uint16
	Inside bool
}

// Reject answers "connection refused".
type Reject struct{}

// Drop answers nothing: a Local traffic policy without an endpoint here leaves the client to try another node.
type Drop struct{}

func (Redirect) target() {}
func (Reject) target()   {}
func (Drop) target()     {}

// Portal is a frontend and where it leads. It is comparable.
type Portal struct {
	Frontend service.Frontend
	Kind     service.Kind
	Owner    service.PortName
	Target   Target
}

// Change is the newest state of one frontend; Portal is nil when nothing leads from it any more.
type Change struct {
	Frontend service.Frontend
	Portal   *Portal
}

// ErrUnknown is the error of an Update or Audit while it is not known what the host holds: before the first Replace, and
// after an error until a Replace succeeds.
var ErrUnknown = errors.New("what the host holds is not known: Replace comes first")

// Writer puts portals into one facility of the host. One goroutine calls it.
type Writer interface {
	// Guard says at which proxy ports listeners of the daemon were opened (true) and closed. From the next Replace or
	// Update on, in its transaction, new flows that no portal led there are refused at open ones, and others are let in;
	// all other ports are none of a Writer's business.
	Guard(map[ProxyPort]bool)
	// Replace makes the host hold exactly these portals, whatever it held before, leftovers of an earlier run
	// included. Nothing that stays is interrupted.
	Replace(ctx context.Context, portals []Portal) error
	// Update applies changes to what the last Replace and Updates left, at a cost that does not grow with the number
	// of portals. After an error the host's state is unknown, and only Replace may follow.
	Update(ctx context.Context, changes []Change) error
}

// Cleaner is a Writer that can remove what it wrote.
type Cleaner interface {
	// Cleanup removes every trace of ours and nothing else.
	Cleanup(ctx context.Context) error
}

// Auditor is a Writer that can tell whether the host still holds what was written.
type Auditor interface {
	// Audit returns an error that says what is missing or strange; nil when all stands as written.
	Audit(ctx context.Context) error
}

// Checker is a Writer that can tell by a look at a portal that it cannot be held.
type Checker interface {
	// Check returns an error that names the portal and what is wrong with it; nil if nothing is seen to be.
	Check(Portal) error
}

// Capabilities are what a Writer finds that this host can do. They may be asked for from any goroutine.
type Capabilities interface {
	// IPv6 tells whether portals of IPv6 can be held; those of IPv4 always can.
	IPv6() bool
	// Diverts tells whether replies to clients' addresses that the daemon dials from are marked in that family.
	Diverts(family service.IPFamily) bool
}

// Adjustable is a Writer whose Settings change while it is in use. A change takes effect at the next Replace, and may be made
// from any goroutine.
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

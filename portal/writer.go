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

// ErrUnknown is the error of an Update or Audit while it is not known what the host holds: before the first Replace
// or Adopt, and after an error until a Replace succeeds.
var ErrUnknown = errors.New("what the host holds is not known: Replace comes first")

// Writer puts portals into one facility of the host. Every Writer has every method; what one of them lacks, its
// Features say, or the method's comment says what it does then. Embedded in a Writer, Unsupported has the methods that
// this one has no use for.
//
// One goroutine calls it. Any goroutine may call Features, Check, Offers, Diverts, Show, InvalidDropped, CountRefused,
// Culprits and what begins with Set.
type Writer interface {
	// Features say what this Writer can do on this host. They never change.
	Features() Features
	// Offers tells whether portals that spread can choose endpoints by an algorithm, in every family that is served. The
	// Writer's own way, AlgorithmDefault, is always there. To find out may take as long as to load a module of the kernel.
	Offers(service.Algorithm) bool
	// Check returns an error that names the portal and what is wrong with it, if it can be told without a write.
	Check(Portal) error

	// Guard says at which proxy ports listeners of the daemon were opened (true) and closed. From the next Replace or
	// Update on, in its transaction, open ones accept new flows that a portal redirected, and refuse others. A Writer does
	// not touch other ports.
	Guard(map[ProxyPort]bool)
	// Open says at which TCP ports the daemon answers health checks of load balancers (true), and where it does no longer.
	// From the next Replace or Update on, in its transaction, new flows to those ports are let in, whatever the host's own
	// rules say. Without Features.Opens it does nothing.
	Open(map[uint16]bool)

	// Replace makes the host hold exactly these portals, whatever it held before, leftovers of an earlier run included.
	// Flows of portals that stay are not interrupted.
	Replace(ctx context.Context, portals []Portal) error
	// Update applies changes to what the last Replace and Updates left, at a cost that does not grow with the number
	// of portals. After an error the host's state is unknown, and only Replace may follow.
	Update(ctx context.Context, changes []Change) error
	// Adopt takes these portals, and the proxy ports that Guard was told of, for written, as after a Replace, if the host
	// holds exactly what a Replace would leave there, and writes no rule. Otherwise it returns an error that says what
	// differs; nothing is known then, and Replace comes next. Rules that an earlier run keeps for open connections may be
	// there too, and is looked after as its own would be. Nobody else may be writing rules for the Writer meanwhile.
	// Without Features.Adopts it returns errors.ErrUnsupported.
	Adopt(ctx context.Context, portals []Portal) error
	// Sweep ends what is due without a change, after a time or once it is unused, and returns when the next sweep is;
	// zero: not before the next change.
	Sweep(ctx context.Context) (next time.Time, err error)
	// Cleanup removes everything that this or an earlier run wrote, and nothing else.
	Cleanup(ctx context.Context) error

	// Audit returns an error that says what is missing or should not be there; nil when all is as written.
	Audit(ctx context.Context) error
	// Disturbed tells whether others may have changed what was written since it was written or audited last. It takes a
	// few system calls, however much was written, and is false where that is not enough to tell.
	Disturbed() bool
	// Show reads the rules of these portals, which the Writer was given, as they are on the host now, and changes nothing.
	// It returns what it has also with an error, when ctx ends first or a command fails. It may run during an Update.
	Show(ctx context.Context, portals []Portal) (Shown, error)

	// Watch looks from now on for so long who changes what was written, where the kernel tells that. It makes transactions
	// of all programs more expensive.
	Watch(time.Duration)
	// Listen receives what the kernel tells of them until ctx ends. It returns at once where the kernel tells nothing.
	Listen(ctx context.Context) error
	// Culprits are the processes that Watch saw, the last one first.
	Culprits() []Culprit

	// Diverts tells whether replies to clients' addresses that the daemon dials from are marked in that family.
	Diverts(family inet.Family) bool
	// InvalidDropped counts the packets that were dropped since the rules were written last because conntrack finds them
	// invalid; false: no rule drops them. It takes milliseconds. Without Features.DropsInvalid it returns false.
	InvalidDropped(ctx context.Context) (packets uint64, drops bool, err error)
	// CountRefused reads how many packets portals have refused or dropped (see Portal.Refuses), and reports by the
	// Refused of the Writer's options what was not reported before. A Writer reads by itself before it removes a rule that
	// counts. It costs one listing of such rules or elements, and nothing while there are none. Without
	// Features.CountsRefused it does nothing.
	CountRefused(ctx context.Context) error

	// These change settings from the next Replace on.
	SetLocalDetector(LocalDetector) error
	SetNodePortAddresses([]netip.Prefix) (changed bool)
	SetMark(uint32)
	// SetServiceCIDRs sets from which ranges the cluster gives Services addresses: packets for those that no Service has
	// are dropped. False: as before, or the Writer drops none.
	SetServiceCIDRs([]netip.Prefix) (changed bool, err error)
}

// Features tell what a Writer can do on its host, beside portals of IPv4.
type Features struct {
	IPv6         bool // write portals of IPv6
	Adopts       bool // go on with what an earlier run wrote: Adopt
	Opens        bool // let flows to servers of this host in: Open
	DropsInvalid bool // count what it drops of invalid packets: InvalidDropped

	CountsRefused bool // count packets at portals that refuse: CountRefused
}

// Unsupported has the methods of a Writer but Guard, Replace and Update, as one has them that can do nothing of it.
type Unsupported struct{}

// Features are none.
func (Unsupported) Features() Features { return Features{} }

// Offers knows the default algorithm.
func (Unsupported) Offers(a service.Algorithm) bool { return a == service.AlgorithmDefault }

// Check finds nothing.
func (Unsupported) Check(Portal) error { return nil }

// Open lets nothing in.
func (Unsupported) Open(map[uint16]bool) {}

// Adopt returns errors.ErrUnsupported.
func (Unsupported) Adopt(context.Context, []Portal) error { return errors.ErrUnsupported }

// Sweep has nothing that is due.
func (Unsupported) Sweep(context.Context) (time.Time, error) { return time.Time{}, nil }

// Cleanup returns errors.ErrUnsupported.
func (Unsupported) Cleanup(context.Context) error { return errors.ErrUnsupported }

// Audit finds nothing.
func (Unsupported) Audit(context.Context) error { return nil }

// Disturbed sees no sign.
func (Unsupported) Disturbed() bool { return false }

// Show returns errors.ErrUnsupported.
func (Unsupported) Show(context.Context, []Portal) (Shown, error) {
	return Shown{}, errors.ErrUnsupported
}

// Watch looks for nobody.
func (Unsupported) Watch(time.Duration) {}

// Listen hears nothing.
func (Unsupported) Listen(context.Context) error { return nil }

// Culprits are not known.
func (Unsupported) Culprits() []Culprit { return nil }

// Diverts is false: nothing is marked.
func (Unsupported) Diverts(inet.Family) bool { return false }

// InvalidDropped is false: nothing is dropped.
func (Unsupported) InvalidDropped(context.Context) (uint64, bool, error) { return 0, false, nil }

// CountRefused counts nothing.
func (Unsupported) CountRefused(context.Context) error { return nil }

// SetLocalDetector changes nothing.
func (Unsupported) SetLocalDetector(LocalDetector) error { return nil }

// SetNodePortAddresses changes nothing.
func (Unsupported) SetNodePortAddresses([]netip.Prefix) bool { return false }

// SetMark changes nothing.
func (Unsupported) SetMark(uint32) {}

// SetServiceCIDRs changes nothing.
func (Unsupported) SetServiceCIDRs([]netip.Prefix) (bool, error) { return false, nil }

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

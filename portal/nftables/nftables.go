// Package nftables writes portals to a table of nftables for each family, over netlink: Redirect and Spread are
// elements of maps of nat chains, Reject and Drop of sets of filter chains. Filter rules guard the daemon's own ports,
// and mark replies to addresses of clients that the daemon dials from. It does not know who listens behind a Redirect.
//
// The life of a change: state knows the sets, elements and chains that portals need, which package layout generates in
// the language of package nft, and turns portals that change into a changeset. The steps of a changeset are netlink
// messages in an order in which each packet always finds its way. table commits them, by kernelTable, which also lists
// what the kernel has: to audit it, to adopt it, and to show it.
//
// A rule or set for every portal belongs into package layout, and a check for kernels that lack its features into
// features.go. A kind of element belongs into entries.go. The tests compare what Render says with testdata (-update
// writes it), and any sequence of Updates with one Replace (FuzzEquivalence).
//
// A packet passes the chains of all tables: a firewall in another table that drops by default needs rules of its own
// that accept this traffic.
package nftables

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"sync"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/layout"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

// DefaultTable is the name of our tables unless Options says otherwise.
const DefaultTable = "portald"

// Options of a Writer.
type Options struct {
	writer.Options
	// Table is the name of the tables, of families ip and ip6, that are ours alone. Empty is DefaultTable.
	Table string
	// ServiceCIDRs are the ranges of ClusterIPs, of either family. Packets for an address of these that no Service has
	// are dropped. SetServiceCIDRs changes them later.
	ServiceCIDRs []netip.Prefix
	// CleanupFailed is called when the kernel refuses a transaction that deletes what a change has left. Default: nothing.
	CleanupFailed func(inet.Family)
	// Run runs the command nft, which Show alone uses; default platform.Run.
	Run func(ctx context.Context, name string, args []string, stdin []byte) ([]byte, error)
}

type families = writer.Families

// Writer writes portals to nftables. An Update costs as much as the elements that it changes; a change of chains, of
// service ports with affinity, a Local policy or source ranges, also has the kernel validate all such chains.
type Writer struct {
	*families
	opts   Options  // complete
	tables []*table // one for each family served
	ranges *ranges
	offers map[service.Algorithm]func() bool
}

var _ portal.Writer = (*Writer)(nil)

// Features say what it can do beside what all Writers of rules can.
func (w *Writer) Features() portal.Features {
	f := w.families.Features()
	f.CountsRefused = true
	return f
}

// New checks that the kernel has the features that rules use, and returns a Writer that has changed nothing yet. It
// belongs to the network namespace of the calling thread. It is an error if the kernel lacks them for IPv4; without
// IPv6 only IPv4 is served.
func New(o Options) (*Writer, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	conn, err := nfnl.Dial()
	if err != nil {
		return nil, fmt.Errorf("use nftables: %w", err)
	}
	w := &Writer{opts: o, ranges: newRanges(o.ServiceCIDRs)}
	w.families, err = writer.Open(o.Options, func(ip inet.Family) (writer.Family, error) {
		r, err := o.rules(nft.FamilyOf(ip))
		if err != nil {
			return writer.Family{}, err
		}
		t, err := open(conn, r, o)
		if err != nil {
			return writer.Family{}, err
		}
		w.tables = append(w.tables, t)
		return t.steps(w.ranges), nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("use nftables: %w", err), conn.Close())
	}
	w.families.Observe(conn, w.witness())
	w.offers = map[service.Algorithm]func() bool{}
	for _, a := range []service.Algorithm{service.RoundRobin, service.SourceHash} {
		w.offers[a] = sync.OnceValue(func() bool { return w.knows(a) })
	}
	return w, nil
}

// witness sees who changes our tables.
func (w *Writer) witness() *writer.Witness {
	listener, err := nfnl.NewWitness(func(m nfnl.Message) bool {
		return nfnl.InTable(m, nfnl.NFPROTO_IPV4, w.opts.Table) || nfnl.InTable(m, nfnl.NFPROTO_IPV6, w.opts.Table)
	})
	if err != nil {
		return nil // nobody is seen
	}
	return writer.NewWitness(listener, platform.Parent)
}

var tableForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,59}$`)

// complete sets defaults and validates.
func (o *Options) complete() error {
	if o.Table == "" {
		o.Table = DefaultTable
	}
	if o.Run == nil {
		o.Run = platform.Run
	}
	if o.CleanupFailed == nil {
		o.CleanupFailed = func(inet.Family) {}
	}
	if !tableForm.MatchString(o.Table) {
		return fmt.Errorf("nftables table %q: want at most 60 of letters, digits, _ and -, a letter first", o.Table)
	}
	if err := checkRanges(o.ServiceCIDRs); err != nil {
		return err
	}
	return o.Options.Complete()
}

// rules returns the layout of a family, without Settings.
func (o *Options) rules(f nft.Family) (r layout.Rules, err error) {
	r = layout.Rules{Sets: layout.NewSets(f), Family: f, ProxyPorts: o.ProxyPorts,
		Masquerade: o.Masquerade,
		Dials:      o.Dials}
	if r.ProxyAddress, err = o.ProxyAddress(f.IP); err != nil {
		return layout.Rules{}, err
	}
	return r, nil
}

// steps are the operations of a Writer on one table.
func (t *table) steps(now *ranges) writer.Family {
	return writer.Family{
		IP: t.rules.Family.IP, Guard: t.guard, Update: t.update, Remove: t.cleanup, Diverts: t.diverts.Load,
		Replace: func(ctx context.Context, s writer.Settings, portals []portal.Portal) error {
			t.rules.Configure(s, now.all())
			return t.replace(ctx, portals)
		},
		Adopt: func(_ context.Context, s writer.Settings, portals []portal.Portal) error {
			t.rules.Configure(s, now.all())
			return t.takeOver(portals)
		},
		Forget: t.forget,
		Audit:  func(context.Context) error { return t.audit() },
	}
}

// Package nftables holds portals in a table of nftables for each family, over netlink: Redirect and Spread in maps of nat
// chains, Reject and Drop in sets of filter chains, and a guard before the daemon's own ports. It marks replies to
// addresses of clients that the daemon dials from, if asked to. It does not know who listens behind a Redirect.
//
// A firewall in another table has its own say: what it denies by default it must be told to let in.
package nftables

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nfnl"
	"github.com/portald/portald/proxy/service"
)

// DefaultTable is the name of our tables unless Options says otherwise.
const DefaultTable = "portald"

// Options of a Writer. Only ProxyPorts has no default.
type Options struct {
	// Table is the name of the tables, of families ip and ip6, that are ours alone. Empty is DefaultTable.
	Table string
	// ProxyPorts are the first and last port the daemon's listeners use. No Redirect leads outside, and no other port is
	// guarded.
	ProxyPorts [2]uint16
	// ProxyAddresses are addresses of this host, one a family at most, that redirected traffic is led to. A family without
	// one uses the address of the interface that a packet came in by, which some interfaces of pods have not.
	ProxyAddresses []netip.Addr
	// NodePortAddresses are the local addresses that node ports are served on; empty means all. Node ports on loopback
	// are never led anywhere: the daemon listens there itself. SetNodePortAddresses changes them later.
	NodePortAddresses []netip.Prefix
	// Inside says who is a pod, for portals that lead pods elsewhere. SetInside changes it later.
	Inside portal.Inside
	// Mark has these bits set in packets for a socket of this host that is bound to an address of others, so that routing
	// can deliver them here: platform.Divert. 0 is without. A host that cannot is told of in Log. SetMark changes it later.
	Mark uint32
	// Dials is the mark of what the daemon itself sends to endpoints, which no portal leads anywhere. 0 is none.
	Dials uint32
	// Masquerade says how flows to endpoints are. Its mark, Mark and Dials have no bit in common.
	Masquerade portal.Masquerade
	// ServiceCIDRs are where ClusterIPs come from, of either family. What goes there to an address without a portal is
	// dropped. Empty: it is not looked at.
	ServiceCIDRs []netip.Prefix
	// Log is told once of each thing that the host cannot do. The default is silence.
	Log func(format string, args ...any)
	// Failed is told of each Replace, or Update if partial, that one family's rules did not take. Default none.
	Failed func(family service.IPFamily, partial bool)
}

// Writer holds portals in nftables. One goroutine uses it; Diverts and what begins with Set are for any.
type Writer struct {
	portal.Limits
	portal.Live
	conn   *nfnl.Conn
	tables []*table // one for each family served
	failed func(family service.IPFamily, partial bool)
	known  portal.Known
	open   map[portal.ProxyPort]bool // the proxy ports that are
}

var (
	_ portal.Writer  = (*Writer)(nil)
	_ portal.Auditor = (*Writer)(nil)
)

// New looks whether the kernel can do it and returns a Writer that has changed nothing yet. It belongs to the network
// namespace of the calling thread. It is an error if IPv4 cannot be served; a host without IPv6 is served without it.
func New(o Options) (*Writer, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	conn, err := nfnl.Dial()
	if err != nil {
		return nil, fmt.Errorf("use nftables: %w", err)
	}
	w := &Writer{Limits: o.limits(), failed: o.Failed, conn: conn, open: map[portal.ProxyPort]bool{}}
	w.Begin(o.settings())
	for _, f := range []family{ipv4(), ipv6()} {
		r, err := o.rules(f)
		if err != nil {
			return nil, err
		}
		t, err := open(conn, r, o)
		switch {
		case err == nil:
			w.tables = append(w.tables, t)
		case f.ip == service.IPv6:
			o.Log("no portals for IPv6 on this host: %v", err)
		default:
			return nil, errors.Join(fmt.Errorf("use nftables: %w", err), conn.Close())
		}
	}
	return w, nil
}

// IPv6 tells whether this host can hold portals of IPv6; those of IPv4 it always can.
func (w *Writer) IPv6() bool { return len(w.tables) > 1 }

var tableForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,59}$`)

// complete sets defaults and refuses what makes no sense.
func (o *Options) complete() error {
	if o.Table == "" {
		o.Table = DefaultTable
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Failed == nil {
		o.Failed = func(service.IPFamily, bool) {}
	}
	if !tableForm.MatchString(o.Table) {
		return fmt.Errorf("nftables table %q: want at most 60 of letters, digits, _ and -, a letter first", o.Table)
	}
	if err := o.limits().Complete(); err != nil {
		return err
	}
	for _, cidr := range o.ServiceCIDRs {
		if !cidr.IsValid() || cidr.Addr().Is4In6() || cidr.Bits() == 0 {
			return fmt.Errorf("service CIDR %s: want an IPv4 or IPv6 prefix", cidr)
		}
	}
	if err := o.Masquerade.Complete(); err != nil {
		return err
	}
	if err := portal.CheckDials(o.Dials, o.Mark|o.Masquerade.Mark); err != nil {
		return err
	}
	return o.Inside.Check()
}

func (o *Options) limits() portal.Limits {
	return portal.Limits{First: o.ProxyPorts[0], Last: o.ProxyPorts[1]}
}

func (o *Options) settings() portal.Settings {
	return portal.Settings{Inside: o.Inside, NodePortAddresses: o.NodePortAddresses, Mark: o.Mark}
}

// rules are those of a family, without what is live.
func (o *Options) rules(f family) (rules, error) {
	r := rules{sets: f.newSets(), family: f, first: o.ProxyPorts[0], last: o.ProxyPorts[1], masquerade: o.Masquerade,
		dials: o.Dials}
	var err error
	if r.proxyAddress, err = portal.ProxyAddress(o.ProxyAddresses, f.ip); err != nil {
		return rules{}, err
	}
	for _, cidr := range o.ServiceCIDRs {
		if f.owns(cidr.Addr()) {
			r.serviceCIDRs = append(r.serviceCIDRs, cidr.Masked())
		}
	}
	return r, nil
}

// adopt has what is live take effect.
func (r *rules) adopt(s portal.Settings) {
	r.inside, r.mark = s.Inside, s.Mark
	r.podsKnown = len(r.pods(false)) > 0
	r.allNodeAddresses = len(s.NodePortAddresses) == 0
	r.nodeAddresses = s.NodeAddresses(r.ip)
}

// Guard says which proxy ports are open.
func (w *Writer) Guard(changes map[portal.ProxyPort]bool) {
	for p, open := range changes {
		if w.open[p] == open {
			continue
		}
		if w.open[p] = open; !open {
			delete(w.open, p)
		}
		for _, t := range w.tables {
			t.state.guard(map[portal.ProxyPort]bool{p: open})
		}
	}
}

// Replace makes the tables of both families hold exactly these portals. Portals that no rule can express are left out
// and named in the error; the rest is served.
func (w *Writer) Replace(ctx context.Context, portals []portal.Portal) error {
	return w.known.Anew(func() error {
		sound, err := w.Sound(portals)
		errs := []error{err, w.conn.Watch()}
		for _, t := range w.tables {
			t.adopt(w.Settings())
			errs = append(errs, t.wrap("replace", w.tell(t, false, t.replace(ctx, sound, w.open))))
		}
		return errors.Join(errs...)
	})
}

// Update applies changes, as one transaction a family. It costs what they change: elements of maps, and the chains of
// service ports with affinity, a Local policy or source ranges, at which the kernel looks through all such chains.
func (w *Writer) Update(ctx context.Context, changes []portal.Change) error {
	return w.known.Onward("update", func() error {
		sound, err := w.SoundChanges(changes)
		errs := []error{err}
		for _, t := range w.tables {
			errs = append(errs, t.wrap("update", w.tell(t, true, t.update(ctx, sound))))
		}
		return errors.Join(errs...)
	})
}

func (w *Writer) tell(t *table, partial bool, err error) error {
	if err != nil {
		w.failed(t.ip, partial)
	}
	return err
}

// Cleanup removes our tables.
func (w *Writer) Cleanup(ctx context.Context) error {
	w.known.Forget()
	var errs []error
	for _, t := range w.tables {
		errs = append(errs, t.wrap("remove", t.cleanup(ctx)))
	}
	return errors.Join(errs...)
}

// Audit compares the tables of both families with what was written, unless nobody has changed anything in nftables.
func (w *Writer) Audit(ctx context.Context) error {
	return w.known.Look(func() error {
		id, same, err := w.conn.Unchanged()
		if same || err != nil {
			return err
		}
		var errs []error
		for _, t := range w.tables {
			errs = append(errs, t.wrap("audit", t.audit()))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		w.conn.Verified(id)
		return nil
	})
}

// Diverts tells whether replies to the addresses of clients that the daemon dials from are marked in that family: with
// Options.Mark, from the first Replace on, on a host that can.
func (w *Writer) Diverts(family service.IPFamily) bool {
	return slices.ContainsFunc(w.tables, func(t *table) bool { return t.ip == family && t.diverts.Load() })
}

// wrap says what of a family went wrong.
func (f family) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s portals: %w", verb, f.ip, err)
}

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

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nfnl"
	"github.com/portald/portald/portal/writer"
	"github.com/portald/portald/proxy/service"
)

// DefaultTable is the name of our tables unless Options says otherwise.
const DefaultTable = "portald"

// Options of a Writer.
type Options struct {
	writer.Options
	// Table is the name of the tables, of families ip and ip6, that are ours alone. Empty is DefaultTable.
	Table string
	// ServiceCIDRs are where ClusterIPs come from, of either family. What goes there to an address without a portal is
	// dropped. Empty: it is not looked at.
	ServiceCIDRs []netip.Prefix
}

type families = writer.Families

// Writer holds portals in nftables. An Update is one transaction a family. It costs what it changes: elements of maps, and
// the chains of service ports with affinity, a Local policy or source ranges, at which the kernel looks through all such
// chains.
type Writer struct {
	*families
	conn   *nfnl.Conn
	tables []*table // one for each family served
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
	w := &Writer{conn: conn}
	w.families, err = writer.Open(o.Options, conn, func(ip service.IPFamily) (writer.Family, error) {
		r, err := o.rules(familyOf(ip))
		if err != nil {
			return writer.Family{}, err
		}
		t, err := open(conn, r, o)
		if err != nil {
			return writer.Family{}, err
		}
		w.tables = append(w.tables, t)
		return t.steps(), nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("use nftables: %w", err), conn.Close())
	}
	return w, nil
}

var tableForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,59}$`)

// complete sets defaults and refuses what makes no sense.
func (o *Options) complete() error {
	if o.Table == "" {
		o.Table = DefaultTable
	}
	if !tableForm.MatchString(o.Table) {
		return fmt.Errorf("nftables table %q: want at most 60 of letters, digits, _ and -, a letter first", o.Table)
	}
	for _, cidr := range o.ServiceCIDRs {
		if !cidr.IsValid() || cidr.Addr().Is4In6() || cidr.Bits() == 0 {
			return fmt.Errorf("service CIDR %s: want an IPv4 or IPv6 prefix", cidr)
		}
	}
	return o.Options.Complete()
}

// rules are those of a family, without Settings.
func (o *Options) rules(f family) (r rules, err error) {
	r = rules{sets: f.newSets(), family: f, first: o.ProxyPorts[0], last: o.ProxyPorts[1], masquerade: o.Masquerade,
		dials: o.Dials}
	if r.proxyAddress, err = o.ProxyAddress(f.ip); err != nil {
		return rules{}, err
	}
	for _, cidr := range o.ServiceCIDRs {
		if f.owns(cidr.Addr()) {
			r.serviceCIDRs = append(r.serviceCIDRs, cidr.Masked())
		}
	}
	return r, nil
}

// adopt has Settings take effect.
func (r *rules) adopt(s writer.Settings) {
	r.inside, r.mark = s.LocalDetector, s.Mark
	r.podsKnown = len(r.pods(false)) > 0
	r.allNodeAddresses = len(s.NodePortAddresses) == 0
	r.nodeAddresses = s.NodeAddresses(r.ip)
}

// steps are the table's part in what a Writer does.
func (t *table) steps() writer.Family {
	return writer.Family{
		IP: t.ip, Guard: t.guard, Update: t.update, Remove: t.cleanup, Diverts: t.diverts.Load,
		Replace: func(ctx context.Context, s writer.Settings, portals []portal.Portal) error {
			t.adopt(s)
			return t.replace(ctx, portals)
		},
		Audit: func(context.Context) error { return t.audit() },
	}
}

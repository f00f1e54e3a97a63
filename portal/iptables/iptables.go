// Package iptables holds portals in the nat and filter tables of iptables and ip6tables, in the nft or the legacy
// variant: Redirect and Spread in nat, Reject and Drop in filter, and a guard before the daemon's own ports. In mangle it
// marks replies to addresses of clients that the daemon dials from, if asked to. It does not know who listens behind a
// Redirect, nor whether an endpoint of a Spread lives.
package iptables

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/writer"
	"github.com/portald/portald/proxy/service"
)

// DefaultPrefix begins the names of our chains unless Options says otherwise.
const DefaultPrefix = "PORTALD"

// Options of a Writer. Only ProxyPorts has no default.
type Options struct {
	// Prefix begins the name of every chain of ours: capital letters, digits and -, 15 at most. Empty is DefaultPrefix.
	Prefix string
	// Variant is "nft", "legacy", or empty for the one that the distribution calls iptables.
	Variant string
	// ProxyPorts are the first and last port the daemon's listeners use. No Redirect leads outside, and no other port is
	// guarded.
	ProxyPorts [2]uint16
	// ProxyAddresses are addresses of this host, one a family at most, that redirected traffic is led to. A family without
	// one uses REDIRECT, which takes the address of the interface that a packet came in by and, in IPv4, drops the packet
	// if the interface has none, as those of pods have in some networks (Calico, Cilium).
	ProxyAddresses []netip.Addr
	// NodePortAddresses are the local addresses that node ports are served on; empty means all. Node ports on loopback
	// are never led anywhere: the daemon listens there itself. SetNodePortAddresses changes them later.
	NodePortAddresses []netip.Prefix
	// Inside says who is led by redirects for clients inside. SetInside changes it later.
	Inside portal.Inside
	// Mark has these bits set in packets for a socket of this host that is bound to an address of others, so that routing
	// can deliver them here: platform.Divert. 0 is without. A host that cannot is told of in Log. SetMark changes it later.
	Mark uint32
	// Dials is the mark of what the daemon itself sends to endpoints, which no portal leads anywhere. 0 is none.
	Dials uint32
	// Masquerade says how flows of Spread portals get this node's address. Its mark, Mark and Dials have no bit in common.
	Masquerade portal.Masquerade
	// Liberal says that conntrack takes no packet of a known flow for invalid (nf_conntrack_tcp_be_liberal), so that none
	// has to be dropped.
	Liberal bool
	// NodeIPs are this node's addresses. With one of them in the source ranges of a LoadBalancerIP that this node has
	// itself, it may dial it.
	NodeIPs []netip.Addr
	// Extra are chains that the Writer of another facility needs.
	Extra []writer.Chain
	// ExtraNames is a regular expression for the names of such chains behind Prefix and a -. Those that Extra does not have
	// are removed, as left by an earlier run. Empty: there never were any.
	ExtraNames string
	// Run runs a command, as platform.Run does, which is the default.
	Run func(ctx context.Context, name string, args []string, stdin []byte) (stdout []byte, err error)
	// Log is told once of each thing that the host cannot do. The default is silence.
	Log func(format string, args ...any)
	// Failed is told of each Replace, or Update if partial, that one family's rules did not take. Default none.
	Failed func(family service.IPFamily, partial bool)
	// Held is told how many rules of ours a table of one family holds, after each Replace and Update. Default none.
	Held func(family service.IPFamily, table string, rules int)
	// Wrote is told how many rules a Replace or Update gave a table of one family. Default none.
	Wrote func(family service.IPFamily, table string, rules int)
}

// Writer holds portals in iptables. One goroutine uses it; Diverts and what begins with Set are for any.
type Writer struct {
	portal.Limits
	portal.Live
	hosts  []*host // one for each family served
	failed func(family service.IPFamily, partial bool)
	held   func(family service.IPFamily, table string, rules int)
	wrote  func(family service.IPFamily, table string, rules int)
	known  portal.Known
}

var (
	_ portal.Writer  = (*Writer)(nil)
	_ portal.Auditor = (*Writer)(nil)
)

// New looks for the commands and returns a Writer that has changed nothing yet. It is an error if IPv4 cannot be served;
// a host without IPv6 is served without it.
func New(o Options) (*Writer, error) {
	look := present
	if o.Run != nil {
		look = func(family, string) error { return nil } // Run may run elsewhere
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	names, err := newChains(o.Prefix, o.ExtraNames)
	if err != nil {
		return nil, err
	}
	w := &Writer{Limits: o.limits(), failed: o.Failed, held: o.Held, wrote: o.Wrote}
	w.Begin(portal.Settings{Inside: o.Inside, NodePortAddresses: o.NodePortAddresses, Mark: o.Mark})
	for _, f := range []family{ipv4(), ipv6()} {
		h, err := newHost(f, names, o)
		if err != nil {
			return nil, err
		}
		err = look(f, o.Variant)
		if err == nil {
			err = h.probe()
		}
		switch {
		case err == nil:
			w.hosts = append(w.hosts, h)
		case f.ip == service.IPv6:
			o.Log("no portals for IPv6 on this host: %v", err)
		default:
			return nil, fmt.Errorf("use %s: %w", f.commandName(o.Variant, ""), err)
		}
	}
	return w, nil
}

// IPv6 tells whether this host can hold portals of IPv6; those of IPv4 it always can.
func (w *Writer) IPv6() bool { return len(w.hosts) > 1 }

// complete sets defaults and refuses what makes no sense.
func (o *Options) complete() error {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Run == nil {
		o.Run = platform.Run
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Failed == nil {
		o.Failed = func(service.IPFamily, bool) {}
	}
	if o.Wrote == nil {
		o.Wrote = func(service.IPFamily, string, int) {}
	}
	if o.Held == nil {
		o.Held = func(service.IPFamily, string, int) {}
	}
	if o.Variant != "" && o.Variant != "nft" && o.Variant != "legacy" {
		return fmt.Errorf("iptables variant %q: want nft, legacy or nothing", o.Variant)
	}
	if err := o.limits().Complete(); err != nil {
		return err
	}
	if err := o.Masquerade.Complete(); err != nil {
		return err
	}
	if o.Mark&o.Masquerade.Mark != 0 {
		return fmt.Errorf("mark %#x of replies: the bit %#x is that of what is masqueraded", o.Mark, o.Masquerade.Mark)
	}
	if err := portal.CheckDials(o.Dials, o.Mark|o.Masquerade.Mark); err != nil {
		return err
	}
	return o.Inside.Check()
}

func (o *Options) limits() portal.Limits {
	return portal.Limits{First: o.ProxyPorts[0], Last: o.ProxyPorts[1]}
}

// Guard says which proxy ports are open.
func (w *Writer) Guard(changes map[portal.ProxyPort]bool) {
	for _, h := range w.hosts {
		h.guard(changes)
	}
}

// Replace makes the hosts of both families hold exactly these portals. Portals that no rule can express are left out
// and named in the error; the rest is served.
func (w *Writer) Replace(ctx context.Context, portals []portal.Portal) error {
	return w.known.Anew(func() error {
		sound, err := w.Sound(portals)
		errs := []error{err}
		for _, h := range w.hosts {
			h.adopt(w.Settings())
			errs = append(errs, h.wrap("replace", w.tell(h, false, h.replace(ctx, sound))))
		}
		return errors.Join(errs...)
	})
}

// Update applies changes. Its cost grows with the leaf chains they touch, and with nothing else that is ours.
func (w *Writer) Update(ctx context.Context, changes []portal.Change) error {
	return w.known.Onward("update", func() error {
		sound, err := w.SoundChanges(changes)
		errs := []error{err}
		for _, h := range w.hosts {
			errs = append(errs, h.wrap("update", w.tell(h, true, h.update(ctx, sound))))
		}
		return errors.Join(errs...)
	})
}

// tell says how the rules of one family took a Replace or Update.
func (w *Writer) tell(h *host, partial bool, err error) error {
	if err != nil {
		w.failed(h.ip, partial)
		return err
	}
	for _, t := range h.written() {
		w.held(h.ip, t.name, t.rules)
		w.wrote(h.ip, t.name, t.sent)
		t.sent = 0
	}
	return nil
}

// Cleanup removes our chains and every rule that leads to one, of this variant, in both families.
func (w *Writer) Cleanup(ctx context.Context) error {
	w.known.Forget()
	var errs []error
	for _, h := range w.hosts {
		errs = append(errs, h.wrap("remove", h.cleanup(ctx)))
	}
	return errors.Join(errs...)
}

// Audit compares the rules of both families with what was written.
func (w *Writer) Audit(ctx context.Context) error {
	return w.known.Look(func() error {
		var errs []error
		for _, h := range w.hosts {
			errs = append(errs, h.wrap("audit", h.audit(ctx)))
		}
		return errors.Join(errs...)
	})
}

// Package iptables writes portals as rules of iptables and ip6tables: Redirect and Spread in the nat table, Reject and
// Drop in filter, and there also a guard of the daemon's own ports. In mangle it marks replies to clients' addresses
// that the daemon dials from, if asked to. Both variants will do, iptables-nft and iptables-legacy; Choose finds the
// one that the host's other rules are in. It does not know what listens behind a Redirect, nor whether an endpoint of a
// Spread is alive.
//
//	proxyPorts := inet.PortRange{First: 11000, Last: 12999} // of the daemon's listeners
//	w, err := iptables.New(ctx, iptables.Options{Options: writer.Options{ProxyPorts: proxyPorts}})
//	err = w.Replace(ctx, portals) // removes leftovers of an earlier run, too
//	err = w.Update(ctx, changes)
//
// A packet finds its frontend by a tree of chains (tree.go), past the rules of most other portals. Chains of a service
// port's endpoints have kube-proxy's names (names.go), so that operators find the chains they know. A change is one
// script of iptables-restore for each table (script.go), which has only the chains that changed.
package iptables

import (
	"context"
	"fmt"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/writer"
)

type families = writer.Families

// Writer holds portals in iptables. The cost of an Update grows with the leaf chains that it touches, and with
// nothing else that is ours. Cleanup removes the chains of the Writer's variant alone, and every rule that jumps to
// one.
type Writer struct {
	*families
	opts  Options // complete
	hosts []*host // one for each family served
}

var _ portal.Writer = (*Writer)(nil)

// Features say what it can do beside what all Writers of rules can.
func (w *Writer) Features() portal.Features {
	f := w.families.Features()
	f.Opens, f.DropsInvalid, f.CountsRefused = true, true, true
	return f
}

// New looks for the commands and returns a Writer that has changed nothing yet. It is an error if IPv4 cannot be
// served; a host without IPv6 is served without it.
func New(ctx context.Context, o Options) (*Writer, error) {
	look, here := present, o.Run == nil
	if !here {
		look = func(family, string) error { return nil } // Run may run elsewhere
	}
	names, err := o.complete()
	if err != nil {
		return nil, err
	}
	w := &Writer{opts: o}
	w.families, err = writer.Open(o.Options, func(ip inet.Family) (writer.Family, error) {
		f := familyOf(ip)
		h, err := newHost(f, names, o)
		if err == nil {
			err = look(f, o.Variant)
		}
		if err == nil {
			err = h.probe(ctx)
		}
		if err != nil {
			return writer.Family{}, fmt.Errorf("use %s: %w", f.commandName(o.Variant, ""), err)
		}
		w.hosts = append(w.hosts, h)
		return h.steps(), nil
	})
	if err != nil {
		return nil, err
	}
	if here {
		w.observe()
	}
	return w, nil
}

// steps are the operations of a Writer on one family.
func (h *host) steps() writer.Family {
	return writer.Family{
		IP: h.ip, Guard: h.guard, Audit: h.audit, Remove: h.cleanup, Diverts: h.diverts.Load,
		Replace: func(ctx context.Context, s writer.Settings, portals []portal.Portal) error {
			h.adopt(s)
			return h.report(h.replace(ctx, portals))
		},
		Adopt: func(ctx context.Context, s writer.Settings, portals []portal.Portal) error {
			h.adopt(s)
			return h.report(h.takeOver(ctx, portals))
		},
		Forget: h.forget,
		Update: func(ctx context.Context, changes []portal.Change) error { return h.report(h.update(ctx, changes)) },
	}
}

// report says how many rules there are and were written, unless that failed.
func (h *host) report(err error) error {
	if err != nil {
		return err
	}
	h.forwards.Store(h.filter.spreading && !h.filter.liberal)
	for _, t := range h.written() {
		h.ruleCount(h.ip, t.name, t.rules)
		h.wrote(h.ip, t.name, t.sent)
		t.sent = 0
	}
	return nil
}

// Open implements portal.Writer.
func (w *Writer) Open(changes map[uint16]bool) {
	for _, h := range w.hosts {
		h.open(changes)
	}
}

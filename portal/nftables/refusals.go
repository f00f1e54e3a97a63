package nftables

import (
	"context"
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
)

// CountRefused implements portal.Writer. It lists the sets whose elements count, by a socket of its own.
func (w *Writer) CountRefused(context.Context) error {
	if !slices.ContainsFunc(w.tables, func(t *table) bool { return t.refusals.Any() }) {
		return nil
	}
	conn, err := nfnl.Dial() // the Writer's is in use
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, t := range w.tables {
		if !t.refusals.Any() {
			continue
		}
		if err := t.countBy(&kernelTable{conn, nft.NewTable(t.kernel.wire.Family, w.opts.Table)}); err != nil {
			return err
		}
	}
	return nil
}

// countBy reads all counters.
func (t *table) countBy(k *kernelTable) error {
	reading := t.refusals.Begin()
	for _, s := range t.counting() {
		add := func(e nft.SetElement) { reading.Add(frontendOf(e, k.wire.Family.IP), e.Packets) }
		if err := k.listElements(s, add); err != nil {
			return err
		}
	}
	return nil
}

// counting are the sets whose elements count.
func (t *table) counting() []*nft.Set {
	return append(t.rules.Sets.Ips.Counting(), t.rules.Sets.NodePorts.Counting()...)
}

// frontendOf is the frontend of an element of these.
func frontendOf(e nft.SetElement, family inet.Family) service.Frontend {
	addr := e.Destination
	if !addr.IsValid() {
		addr = unspecified(family)
	}
	return service.Frontend{Addr: netip.AddrPortFrom(addr, e.Port), Protocol: e.Protocol}
}

// unspecified is the address of NodePorts.
func unspecified(family inet.Family) netip.Addr {
	if family == inet.IPv6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// countAll reads all counters that are followed, around a write. What cannot be read, as when somebody has
// removed the table, is not counted, which is no reason not to write.
func (t *table) countAll() {
	if t.refusals.Any() {
		_ = t.countBy(&t.kernel)
	}
}

// countLast reads the counters of elements that a changeset removes or replaces.
func (t *table) countLast(c *changeset) {
	reading := t.refusals.Begin()
	for _, list := range [][]nft.SetElement{c.remove, c.replace} {
		for _, e := range list {
			if !e.Set.Counts {
				continue
			}
			if is, there, err := t.kernel.getElement(e); err == nil && there {
				reading.Add(frontendOf(e, t.rules.Family.IP), is.Packets)
			}
		}
	}
}

// follow takes in which counters a changeset has begun and ended.
func (t *table) follow(c *changeset) {
	for _, e := range c.remove {
		if e.Set.Counts {
			t.refusals.Removed(frontendOf(e, t.rules.Family.IP))
		}
	}
	for _, list := range [][]nft.SetElement{c.add, c.replace} {
		for _, e := range list {
			if e.Set.Counts {
				f := frontendOf(e, t.rules.Family.IP)
				t.refusals.Wrote(f, t.state.portals[f].Owner)
			}
		}
	}
}

// followAll does the same after all was written or adopted: elements that were there before count on.
func (t *table) followAll(c *changeset) {
	refuses := func(f service.Frontend) bool {
		p, ok := t.state.portals[f]
		return ok && counts(t.state, p)
	}
	t.refusals.Retain(refuses)
	t.follow(c)
	for f, p := range t.state.portals {
		if counts(t.state, p) {
			t.refusals.Found(f, p.Owner)
		}
	}
	if t.refusals.Unread() {
		t.countAll()
	}
}

// counts tells whether a portal has an element that counts.
func counts(s *state, p portal.Portal) bool {
	if !p.Refuses() {
		return false
	}
	for e := range s.entries(p) {
		if e.Set.Counts {
			return true
		}
	}
	return false
}

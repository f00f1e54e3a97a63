package ipvs

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/writer"
	"github.com/portald/portald/proxy/service"
)

// change puts in what a change says in place of what there was.
func (w *Writer) change(c portal.Change) {
	if before, there := w.portals[c.Frontend]; there {
		delete(w.portals, c.Frontend)
		w.count(before, -1)
	}
	if c.Portal != nil {
		w.put(*c.Portal)
	}
}

func (w *Writer) put(p portal.Portal) {
	w.portals[p.Frontend] = p
	w.count(p, 1)
}

// count adds a portal's use of addresses and elements of sets, or takes it away. Addresses are there whatever a portal's
// target is, so that this node's own clients, who dial from them, keep them when it changes.
func (w *Writer) count(p portal.Portal, n int) {
	if p.Kind != service.NodePort {
		w.use(p.Frontend, n)
	}
	for _, e := range w.at.entries(p) {
		w.elements.Add(n, e)
	}
}

// pods has the set of pods' addresses hold those.
func (w *Writer) pods() {
	for _, p := range w.live.Settings().Inside.Sources {
		for _, half := range halves(p.Masked()) {
			e := entry{pods, service.FamilyOf(half.Addr()), element{client: half}}
			if w.elements.Counts()[e] == 0 && (w.v6 || e.family == service.IPv4) {
				w.elements.Add(1, e)
			}
		}
	}
}

// halves are a prefix, or two where it is everything: no set can hold that.
func halves(p netip.Prefix) []netip.Prefix {
	if p.Bits() > 0 {
		return []netip.Prefix{p}
	}
	upper := make([]byte, p.Addr().BitLen()/8)
	upper[0] = 0x80
	addr, _ := netip.AddrFromSlice(upper)
	return []netip.Prefix{netip.PrefixFrom(p.Addr(), 1), netip.PrefixFrom(addr, 1)}
}

// use counts the uses of a frontend's address, unless the host has it anyway.
func (w *Writer) use(f service.Frontend, n int) {
	addr := f.Addr.Addr()
	if w.at.own[addr] {
		return
	}
	w.addrs.Add(n, addr)
	w.elements.Add(n, entry{addresses, service.FamilyOf(addr), element{addr: addr}})
}

// hold counts what a virtual server itself needs, as long as it is there.
func (w *Writer) hold(f service.Frontend) { w.reckon(f, 1) }

func (w *Writer) release(f service.Frontend) { w.reckon(f, -1) }

func (w *Writer) reckon(f service.Frontend, n int) {
	w.use(f, n)
	w.elements.Add(n, atFrontend(served, f))
}

// frontends are those of virtual servers, wanted or held, in order.
func (w *Writer) frontends() []service.Frontend {
	all := map[service.Frontend]bool{}
	for f := range w.servers {
		all[f] = true
	}
	for f := range w.portals {
		for _, s := range w.at.servers(f) {
			all[s] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), service.Frontend.Compare)
}

// valid returns the portals of families that are served that can be held, and what is wrong with the rest. The Rules check
// those that are theirs.
func (w *Writer) valid(portals []portal.Portal) ([]portal.Portal, error) {
	served := slices.DeleteFunc(slices.Clone(portals), func(p portal.Portal) bool { return !w.serves(p.Frontend) })
	return writer.Valid(served, check)
}

// validChanges is valid for changes; one that cannot be made withdraws the frontend.
func (w *Writer) validChanges(changes []portal.Change) ([]portal.Change, error) {
	served := slices.DeleteFunc(slices.Clone(changes), func(c portal.Change) bool { return !w.serves(c.Frontend) })
	return writer.ValidChanges(served, check)
}

func (w *Writer) serves(f service.Frontend) bool { return f.Addr.Addr().Is4() || w.IPv6() }

// Check refuses what cannot be held, here or by the Rules.
func (w *Writer) Check(p portal.Portal) error {
	if spreads(p) {
		return check(p)
	}
	return w.Rules.Check(p)
}

// check refuses what no virtual server can be. No port of a listener is among that.
func check(p portal.Portal) error {
	if _, ok := p.Target.(portal.Spread); ok {
		return writer.Limits{}.Check(p)
	}
	return nil
}

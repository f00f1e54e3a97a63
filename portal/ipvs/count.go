package ipvs

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// change replaces the portal of a frontend.
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

// count adds n references of a portal to addresses and elements of sets. A portal has its address whatever its target
// is: this node's own clients dial from it, and keep it when the target changes.
func (w *Writer) count(p portal.Portal, n int) {
	if p.Kind != service.NodePort {
		w.countAddress(p.Frontend, n)
	}
	for _, e := range w.node.entries(p) {
		w.elements.Add(n, e)
	}
}

// countPods counts the elements of the set of pods' addresses.
func (w *Writer) countPods() {
	for _, p := range w.live.Settings().LocalDetector.Sources {
		for _, half := range halves(p.Masked()) {
			e := entry{pods, inet.FamilyOf(half.Addr()), element{client: half}}
			if w.elements.Counts()[e] == 0 && (w.v6 || e.family == inet.IPv4) {
				w.elements.Add(1, e)
			}
		}
	}
}

// halves are a prefix, or its two halves if it holds every address: no set can hold that one.
func halves(p netip.Prefix) []netip.Prefix {
	if p.Bits() > 0 {
		return []netip.Prefix{p}
	}
	upper := make([]byte, p.Addr().BitLen()/8)
	upper[0] = 0x80
	addr, _ := netip.AddrFromSlice(upper)
	return []netip.Prefix{netip.PrefixFrom(p.Addr(), 1), netip.PrefixFrom(addr, 1)}
}

// countAddress adds n references to a frontend's address, unless the node has it itself.
func (w *Writer) countAddress(f service.Frontend, n int) {
	addr := f.Addr.Addr()
	if w.node.own[addr] {
		return
	}
	w.addrs.Add(n, addr)
	w.elements.Add(n, entry{addresses, inet.FamilyOf(addr), element{addr: addr}})
}

// countServer adds n references of a virtual server to its address and elements, which it needs while it exists.
func (w *Writer) countServer(f service.Frontend, n int) {
	w.countAddress(f, n)
	w.elements.Add(n, atFrontend(served, f))
}

// frontends are the frontends of virtual servers, wanted or existing, in order.
func (w *Writer) frontends() []service.Frontend {
	all := map[service.Frontend]bool{}
	for f := range w.servers {
		all[f] = true
	}
	for f := range w.portals {
		for _, s := range w.node.servers(f) {
			all[s] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), service.Frontend.Compare)
}

package ipvs

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

// Audit compares what the kernel holds with what was written; the Rules look after theirs.
func (w *Writer) Audit(ctx context.Context) error {
	return w.state.Verify(func() error {
		var drift writer.Drift
		errs := []error{w.auditAddresses(&drift), w.auditSets(&drift), w.auditServers(&drift)}
		return w.done("audit", errors.Join(append(errs, drift.Err(), w.Rules.Audit(ctx))...))
	})
}

func (w *Writer) auditAddresses(drift *writer.Drift) error {
	device, others, err := w.hostAddresses()
	if err != nil {
		return err
	}
	if now := newLocalNode(others, w.live.Settings().NodePortAddresses); !maps.Equal(now.own, w.node.own) {
		drift.Add("the host's addresses are others than before")
	}
	compareKeys(drift, w.names.device+" has", w.addrs.Counts(), present(device), netip.Addr.Compare)
	return nil
}

func (w *Writer) auditSets(drift *writer.Drift) error {
	installed := map[entry]bool{}
	for _, s := range w.names.sets() {
		if s.family == inet.IPv6 && !w.v6 {
			continue
		}
		elements, there, err := w.elementsOf(s)
		if err != nil {
			return err
		}
		if !there {
			drift.Add("set %s is missing", s.name)
			continue
		}
		for _, e := range elements {
			installed[entry{s.id, s.family, e}] = true
		}
	}
	compareKeys(drift, "sets have", w.elements.Counts(), installed, entry.compare)
	return nil
}

func (w *Writer) auditServers(drift *writer.Drift) error {
	all, err := w.virtualServers()
	if err != nil {
		return err
	}
	for _, f := range slices.SortedFunc(maps.Keys(w.servers), service.Frontend.Compare) {
		set, there := all[f]
		if !there {
			drift.Add("no virtual server %s", f)
			continue
		}
		if set != w.servers[f].settings {
			drift.Add("virtual server %s is set otherwise", f)
		}
		installed, err := w.destinations(f)
		if err != nil {
			return err
		}
		weights := map[netip.AddrPort]int{}
		for _, d := range installed {
			weights[d.addr] = d.weight
		}
		if !maps.Equal(weights, w.servers[f].weights) {
			drift.Add("virtual server %s has other endpoints, or weights", f)
		}
	}
	return nil
}

// compareKeys names what is missing of what should be there, and what is strange.
func compareKeys[K comparable](
	drift *writer.Drift, where string, want map[K]int, installed map[K]bool, order func(a, b K) int,
) {
	for _, k := range slices.SortedFunc(maps.Keys(want), order) {
		if !installed[k] {
			drift.Add("%s not %v", where, k)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(installed), order) {
		if _, ok := want[k]; !ok {
			drift.Add("%s %v, which is strange", where, k)
		}
	}
}

func present(addrs []netip.Addr) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for _, a := range addrs {
		out[a] = true
	}
	return out
}

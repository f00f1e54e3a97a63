package ipvs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/portald/portald/proxy/service"
)

// Audit takes away what is idle, and compares what the kernel holds with what was written; the Rules look after theirs.
func (w *Writer) Audit(ctx context.Context) error {
	if !w.written {
		return w.wrap("audit", ErrUnknown)
	}
	if err := w.Sweep(ctx); err != nil {
		return err
	}
	var found findings
	errs := []error{w.auditAddresses(&found), w.auditSets(&found), w.auditServers(&found)}
	return w.wrap("audit", errors.Join(append(errs, found.err(), w.Rules.Audit(ctx))...))
}

func (w *Writer) auditAddresses(found *findings) error {
	device, others, err := w.hostAddresses()
	if err != nil {
		return err
	}
	if now := newPlace(others, w.live.Load().nodePorts); !maps.Equal(now.own, w.at.own) {
		found.add("the host's addresses are others than before")
	}
	compareKeys(found, w.names.device+" has", w.uses.uses, present(device), netip.Addr.Compare)
	return nil
}

func (w *Writer) auditSets(found *findings) error {
	held := map[entry]bool{}
	for _, s := range w.names.sets() {
		if s.v6 && !w.IPv6() {
			continue
		}
		elements, there, err := w.elementsOf(s)
		if err != nil {
			return err
		}
		if !there {
			found.add("set %s is missing", s.name)
			continue
		}
		for _, e := range elements {
			held[entry{s.id, s.v6, e}] = true
		}
	}
	compareKeys(found, "sets have", w.elements.uses, held, entry.compare)
	return nil
}

func (w *Writer) auditServers(found *findings) error {
	all, err := w.virtualServers()
	if err != nil {
		return err
	}
	for _, f := range slices.SortedFunc(maps.Keys(w.servers), service.Frontend.Compare) {
		set, there := all[f]
		if !there {
			found.add("no virtual server %s", f)
			continue
		}
		if set != w.servers[f].settings {
			found.add("virtual server %s is set otherwise", f)
		}
		held, err := w.destinations(f)
		if err != nil {
			return err
		}
		weights := map[netip.AddrPort]int{}
		for _, d := range held {
			weights[d.addr] = d.weight
		}
		if !maps.Equal(weights, w.servers[f].weights) {
			found.add("virtual server %s has other endpoints, or weights", f)
		}
	}
	return nil
}

// compareKeys names what is missing of what should be there, and what is strange.
func compareKeys[K comparable, V any](found *findings, where string, want map[K]V, held map[K]bool, order func(a, b K) int) {
	for _, k := range slices.SortedFunc(maps.Keys(want), order) {
		if !held[k] {
			found.add("%s not %v", where, k)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(held), order) {
		if _, ok := want[k]; !ok {
			found.add("%s %v, which is strange", where, k)
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

// findings bound what an audit names.
type findings struct {
	texts []string
	more  int
}

const maxFindings = 5

func (f *findings) add(format string, args ...any) {
	if len(f.texts) == maxFindings {
		f.more++
		return
	}
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

func (f *findings) err() error {
	if len(f.texts) == 0 {
		return nil
	}
	text := strings.Join(f.texts, "; ")
	if f.more > 0 {
		text += fmt.Sprintf(", and %d more", f.more)
	}
	return errors.New(text)
}

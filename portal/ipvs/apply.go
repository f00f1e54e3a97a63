package ipvs

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// apply makes the kernel hold what is wanted at these frontends, and the Rules what is theirs. A new virtual server
// exists before the rules let go of its frontend, and an old one drains once the rules have it: if they fail, or the
// daemon is told to end meanwhile, it goes on. An address becomes the node's once packets to it are led somewhere: the
// node would refuse them.
func (w *Writer) apply(ctx context.Context, fronts []service.Frontend, rules func() error) error {
	var wanted, unwanted []service.Frontend
	for _, f := range fronts {
		_, ok := w.wanted(f)
		_, exists := w.servers[f]
		switch {
		case ok:
			wanted = append(wanted, f)
			if !exists {
				w.countServer(f, 1)
			}
		case exists:
			unwanted = append(unwanted, f)
		}
	}
	var f failures
	f.add(w.addElements(ctx, func(id setID) bool { return id != addresses }))
	for _, front := range wanted {
		f.add(w.applyServer(front))
	}
	failed := rules()
	f.add(w.addElements(ctx, func(id setID) bool { return id == addresses }))
	f.add(w.addAddresses())
	if failed != nil {
		f.add(failed)
		return f.err()
	}
	for _, front := range unwanted {
		f.add(w.drainServer(front))
	}
	f.add(w.removeUnused())
	return f.err()
}

// addElements adds what is new in these sets.
func (w *Writer) addElements(ctx context.Context, in func(setID) bool) error {
	var f failures
	for _, e := range slices.SortedFunc(slices.Values(w.elements.Added()), entry.compare) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !in(e.id) {
			continue
		}
		f.add(w.addElement(w.names.set(e.id, e.family), e.element))
		w.elements.MarkInstalled(e)
	}
	return f.err()
}

// addAddresses gives the device its new addresses. Who dialled one before has a conntrack entry, by which IPVS would
// take the client's next try, and which is deleted soon after: until then tries are dropped.
func (w *Writer) addAddresses() error {
	var f failures
	for _, addr := range slices.SortedFunc(slices.Values(w.addrs.Added()), netip.Addr.Compare) {
		f.add(w.addElement(w.names.set(recent, inet.FamilyOf(addr)), element{addr: addr}))
		f.add(w.addAddress(addr))
	}
	return f.err()
}

// removeUnused removes addresses and elements without references. It is the last step: what was added is in place.
func (w *Writer) removeUnused() error {
	var f failures
	for _, addr := range slices.SortedFunc(slices.Values(w.addrs.Removed()), netip.Addr.Compare) {
		f.add(w.removeAddress(addr))
	}
	for _, e := range slices.SortedFunc(slices.Values(w.elements.Removed()), entry.compare) {
		f.add(w.removeElement(w.names.set(e.id, e.family), e.element))
	}
	w.addrs.Settle()
	w.elements.Settle()
	return f.err()
}

// applyServer makes a virtual server as it is wanted.
func (w *Writer) applyServer(front service.Frontend) error {
	want, _ := w.wanted(front)
	current, exists := w.servers[front]
	if !exists {
		if err := w.addServer(front, want.settings); err != nil {
			return err
		}
		current = &server{settings: want.settings, weights: map[netip.AddrPort]int{}}
		w.servers[front] = current
	}
	if current.settings != want.settings {
		if err := w.editServer(front, want.settings); err != nil {
			return err
		}
		current.settings = want.settings
	}
	for _, addr := range ordered(want.weights) {
		if err := w.applyEndpoint(front, current, addr, weightServing); err != nil {
			return err
		}
	}
	drains, err := w.drainEndpoints(front, current, want.weights)
	if err != nil || !drains {
		delete(w.draining, front)
		return err
	}
	return w.removeIdle(front)
}

// applyEndpoint adds an endpoint of a server, or sets its weight.
func (w *Writer) applyEndpoint(front service.Frontend, s *server, addr netip.AddrPort, weight int) error {
	was, exists := s.weights[addr]
	switch {
	case exists && was == weight:
		return nil
	case exists:
		if err := w.setWeight(front, addr, weight); err != nil {
			return err
		}
	default:
		if err := w.addDestination(front, addr, weight); err != nil {
			return err
		}
	}
	s.weights[addr] = weight
	return nil
}

func ordered(weights map[netip.AddrPort]int) []netip.AddrPort {
	return slices.SortedFunc(maps.Keys(weights), netip.AddrPort.Compare)
}

// replaceRules and updateRules pass on the portals that the Rules write.
func (w *Writer) replaceRules(ctx context.Context, portals []portal.Portal) error {
	w.guard = false
	return w.Rules.Replace(ctx, withoutSpreads(portals))
}

// withoutSpreads are the portals that are the Rules'.
func withoutSpreads(portals []portal.Portal) []portal.Portal {
	return slices.DeleteFunc(slices.Clone(portals), spreads)
}

func (w *Writer) updateRules(ctx context.Context, changes []portal.Change) error {
	if len(changes) == 0 && !w.guard {
		return nil
	}
	w.guard = false
	return w.Rules.Update(ctx, changes)
}

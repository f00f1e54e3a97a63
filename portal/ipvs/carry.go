package ipvs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// carry has the kernel hold what is wanted at these frontends.
// New servers stand before the rules let go of a frontend, and old ones end once the rules have it.
func (w *Writer) carry(ctx context.Context, fronts []service.Frontend, rules func() error) error {
	var wanted, unwanted []service.Frontend
	for _, f := range fronts {
		_, ok := w.want(f)
		_, there := w.servers[f]
		switch {
		case ok:
			wanted = append(wanted, f)
			if !there {
				w.hold(f)
			}
		case there:
			unwanted = append(unwanted, f)
		}
	}
	var f failures
	f.add(w.enter(ctx))
	for _, front := range wanted {
		f.add(w.serve(front))
	}
	f.add(w.giveAddresses())
	f.add(rules())
	for _, front := range unwanted {
		f.add(w.retire(front))
	}
	f.add(w.tidy())
	return f.err()
}

// tidy removes addresses and elements that are without use. It is the last step: what came has been told already.
func (w *Writer) tidy() error {
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

// enter adds the new elements of sets.
func (w *Writer) enter(ctx context.Context) error {
	var f failures
	for _, e := range slices.SortedFunc(slices.Values(w.elements.Added()), entry.compare) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		f.add(w.addElement(w.names.set(e.id, e.family), e.element))
	}
	return f.err()
}

func (w *Writer) giveAddresses() error {
	var f failures
	for _, addr := range slices.SortedFunc(slices.Values(w.addrs.Added()), netip.Addr.Compare) {
		f.add(w.addAddress(addr))
	}
	return f.err()
}

// serve makes a virtual server be as it is wanted.
func (w *Writer) serve(front service.Frontend) error {
	want, _ := w.want(front)
	held, there := w.servers[front]
	if !there {
		if err := w.addServer(front, want.settings); err != nil {
			return err
		}
		held = &server{settings: want.settings, weights: map[netip.AddrPort]int{}}
		w.servers[front] = held
	}
	if held.settings != want.settings {
		if err := w.editServer(front, want.settings); err != nil {
			return err
		}
		held.settings = want.settings
	}
	for _, addr := range ordered(want.weights) {
		if err := w.weigh(front, held, addr, sharing); err != nil {
			return err
		}
	}
	going, err := w.leave(front, held, want.weights)
	if err != nil || !going {
		delete(w.leaving, front)
		return err
	}
	return w.collect(front)
}

// weigh gives an endpoint of a server its weight.
func (w *Writer) weigh(front service.Frontend, s *server, addr netip.AddrPort, weight int) error {
	was, there := s.weights[addr]
	switch {
	case there && was == weight:
		return nil
	case there:
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

// replaceRules and updateRules hand on what is for rules.
func (w *Writer) replaceRules(ctx context.Context, portals []portal.Portal) error {
	w.guards = false
	return w.Rules.Replace(ctx, slices.DeleteFunc(slices.Clone(portals), spreads))
}

func (w *Writer) updateRules(ctx context.Context, changes []portal.Change) error {
	if len(changes) == 0 && !w.guards {
		return nil
	}
	w.guards = false
	return w.Rules.Update(ctx, changes)
}

// failures keeps the first few errors: who cannot reach a facility need not be told of every portal.
type failures struct {
	first []error
	more  int
}

const maxFailures = 5

func (f *failures) add(err error) {
	switch {
	case err == nil:
	case len(f.first) < maxFailures:
		f.first = append(f.first, err)
	default:
		f.more++
	}
}

func (f *failures) err() error {
	if f.more > 0 {
		return errors.Join(append(f.first, fmt.Errorf("and %d more", f.more))...)
	}
	return errors.Join(f.first...)
}

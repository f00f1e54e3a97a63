package portaltest

import (
	"math/rand/v2"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// targetsChange has each portal go from each target to each other.
func targetsChange(t *trial) {
	random := rand.New(rand.NewPCG(7, 7))
	portals := t.portals(random, 40)
	w := t.writer()
	anchored := func(all []portal.Portal) []portal.Portal {
		if t.spread {
			all = slices.Concat(all, Anchors())
		}
		return all
	}
	t.must(w.Replace(t.Context(), anchored(portals)))
	before := t.dump()
	turned, targets := slices.Clone(portals), t.targets(random, portals)
	steps := []int{1, 1, 1, 1, 2, 2, 3, 3, 3, 3}
	if t.spread {
		steps = []int{1, 1, 1, 1, 1, 2, 3, 4, 1}
	}
	for _, by := range steps {
		var changes []portal.Change
		for i, p := range turned {
			all := targets[i]
			turned[i].Target = all[(slices.Index(all, p.Target)+by)%len(all)]
			changes = append(changes, portal.Change{Frontend: p.Frontend, Portal: &turned[i]})
		}
		t.must(w.Update(t.Context(), changes))
		t.must(t.audit(w))
		moved := t.dump()
		t.must(w.Replace(t.Context(), anchored(turned)))
		t.same("by Replace and by Update", moved, t.dump())
	}
	t.same("all the way round", before, t.dump())
}

// targets are those that each portal may have, its own among them.
func (t *trial) targets(random *rand.Rand, portals []portal.Portal) [][]portal.Target {
	state := State{}
	for _, p := range portals {
		state[p.Frontend] = p
	}
	var out [][]portal.Target
	for _, p := range portals {
		all := targets(p)
		if t.spread {
			to := state.offered(random, p.Owner, familyOf(p)).spread(p.Kind)
			spreads := p
			spreads.Target = to
			state[p.Frontend] = spreads
			all = append(all, to)
		}
		out = append(out, all)
	}
	return out
}

// poolsChange has each owner's endpoints change, one owner an Update.
func poolsChange(t *trial) {
	random := rand.New(rand.NewPCG(9, 9))
	portals := t.portals(random, 60)
	state := State{}
	for _, p := range portals {
		state[p.Frontend] = p
	}
	w := t.writer()
	t.must(w.Replace(t.Context(), portals))
	before := t.dump()
	for _, p := range portals {
		touched := map[service.Frontend]bool{}
		for _, f := range state.repool(random, p.Owner, familyOf(p)) {
			touched[f] = true
		}
		t.must(w.Update(t.Context(), state.changes(touched)))
	}
	t.must(t.audit(w))
	updated := t.dump()
	if updated == before {
		t.Fatal("other endpoints changed nothing")
	}
	t.must(w.Replace(t.Context(), state.Portals()))
	t.same("by Replace and by Update", updated, t.dump())
	t.same("from nothing", t.fresh(state.Portals()), updated)
}

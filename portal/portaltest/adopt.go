package portaltest

import (
	"fmt"
	"math/rand/v2"

	"github.com/portald/portald/portal"
)

// adopter makes another writer, as a daemon does that comes after an earlier run.
func (t *trial) adopter() portal.Writer {
	t.Helper()
	w := t.writer()
	if !w.Features().Adopts {
		t.Skip("it adopts nothing")
	}
	return w
}

func (t *trial) written() int {
	t.Helper()
	n, err := t.Written()
	t.must(err)
	return n
}

// adopts has a new writer adopt portals, which is to write nothing.
func (t *trial) adopts(portals []portal.Portal) portal.Writer {
	t.Helper()
	w := t.adopter()
	before := t.written()
	t.must(w.Adopt(t.Context(), portals))
	if n := t.written() - before; n > 0 {
		t.Fatalf("Adopt wrote %d times", n)
	}
	t.must(t.audit(w))
	return w
}

// adoptWritesNothing: a Writer adopts the portals of another one, however they were written, and continues as that one
// would.
func adoptWritesNothing(t *trial) {
	random := rand.New(rand.NewPCG(10, 10))
	state := State{}
	for _, p := range t.portals(random, 40) {
		state[p.Frontend] = p
	}
	w := t.writer()
	t.must(w.Replace(t.Context(), state.Portals()))
	for range 8 {
		for range 4 {
			w.Guard(ChangePorts(random, t.open, random.IntN(5)))
			t.must(w.Update(t.Context(), t.change(state, random, 1+random.IntN(12))))
		}
		w = t.adopts(state.Portals())
	}
	t.must(w.Update(t.Context(), t.change(state, random, 12)))
	t.must(t.audit(w))
	updated := t.dump()
	t.must(w.Replace(t.Context(), state.Portals()))
	t.same("by Replace and by Update", updated, t.dump())
	t.same("from nothing", t.fresh(state.Portals()), updated)
	before := t.clean()
	t.must(t.writer().Replace(t.Context(), state.Portals()))
	t.cleanup(t.adopts(state.Portals()))
	t.same("after Cleanup", before, t.dump())
}

// adoptFindsDifferences: what is not exactly as it would be written is not adopted, and nothing is written before
// Replace.
func adoptFindsDifferences(t *trial) {
	random := rand.New(rand.NewPCG(11, 11))
	portals := t.portals(random, 40)
	other := portals[7]
	other.Owner.Name += "-other"
	changed := append(portals[:7:7], append([]portal.Portal{other}, portals[8:]...)...)
	open := t.open
	t.clean()
	type difference struct {
		make func() error
		of   []portal.Portal
		open map[portal.ProxyPort]bool
	}
	nothing := func() error { return nil }
	differences := map[string]difference{
		"without the hook":    {func() error { return t.Host.Unhook(t.Context()) }, portals, open},
		"with fewer portals":  {nothing, portals[:39], open},
		"with another owner":  {nothing, changed, open},
		"without proxy ports": {nothing, portals, nil},
	}
	for _, p := range portals { // one of each target is enough
		differences[fmt.Sprintf("without what leads to %T", p.Target)] = difference{
			func() error { return t.Host.Damage(t.Context(), p.Frontend) }, portals, open,
		}
	}
	empty := t.adopter()
	if err := empty.Adopt(t.Context(), portals); err == nil {
		t.Error("an empty host is adopted")
	}
	t.must(empty.Replace(t.Context(), portals))
	whole := t.dump()
	for name, d := range differences { // not tests of their own: those would run on threads outside the namespace
		t.open = open
		t.must(t.writer().Replace(t.Context(), portals))
		t.must(d.make())
		hurt := t.dump()
		t.open = d.open
		w := t.adopter()
		before := t.written()
		err := w.Adopt(t.Context(), d.of)
		if n := t.written() - before; n > 0 || err == nil {
			t.Fatalf("%s: Adopt wrote %d times: %v", name, n, err)
		}
		t.Logf("%s: %v", name, err)
		t.same(name+", before and after Adopt", hurt, t.dump())
		if err := w.Update(t.Context(), nil); err == nil {
			t.Errorf("%s: an Update follows an Adopt that failed", name)
		}
		t.must(w.Replace(t.Context(), d.of))
		t.must(t.audit(w))
		t.adopts(d.of)
	}
	t.open = open
	t.must(t.writer().Replace(t.Context(), portals))
	t.must(t.writer().Replace(t.Context(), portals))
	t.same("repaired", whole, t.dump())
}

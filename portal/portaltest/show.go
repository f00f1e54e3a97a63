package portaltest

import (
	"math/rand/v2"
	"strings"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// showReadsTheHost: a Writer shows what the host has of a service port, and what it lacks, and changes nothing.
func showReadsTheHost(t *trial) {
	w := t.writer()
	portals := t.portals(rand.New(rand.NewPCG(9, 9)), 15)
	t.must(w.Replace(t.Context(), portals))
	before := t.dump()
	for _, mine := range byOwner(portals) {
		shown := t.show(w, mine)
		if len(shown.Rules) == 0 || len(shown.Missing) > 0 {
			t.Errorf("%s: %d rules, missing %q", mine[0].Owner, len(shown.Rules), shown.Missing)
		}
	}
	t.same("after Show", before, t.dump())

	hurt := portals[0].Frontend
	t.must(t.Host.Damage(t.Context(), hurt))
	for _, mine := range byOwner(portals) {
		missing := strings.Join(t.show(w, mine).Missing, "\n")
		if hasIt := contains(mine, hurt); hasIt && missing == "" {
			t.Errorf("%s: the rules of %s are gone, and nothing is missing", mine[0].Owner, hurt)
		}
	}
	t.must(w.Replace(t.Context(), portals))
	t.must(t.Host.Unhook(t.Context()))
	lacking := 0
	for _, mine := range byOwner(portals) {
		lacking += len(t.show(w, mine).Missing)
	}
	if lacking == 0 {
		t.Error("nothing leads to the rules of one family, and nothing is missing")
	}
}

func (t *trial) show(w portal.Writer, portals []portal.Portal) portal.Shown {
	t.Helper()
	shown, err := w.Show(t.Context(), portals)
	t.must(err)
	return shown
}

// byOwner are the portals of each service port.
func byOwner(portals []portal.Portal) map[service.PortName][]portal.Portal {
	out := map[service.PortName][]portal.Portal{}
	for _, p := range portals {
		out[p.Owner] = append(out[p.Owner], p)
	}
	return out
}

func contains(portals []portal.Portal, f service.Frontend) bool {
	for _, p := range portals {
		if p.Frontend == f {
			return true
		}
	}
	return false
}

package iptables

import (
	"maps"
	"slices"
	"strings"

	"github.com/portald/portald/portal"
)

const (
	natTable    = "nat"
	filterTable = "filter"
	mangleTable = "mangle"
)

// table is one table of one family: the portals in it and the text that the host was given.
type table struct {
	renderer
	name    string
	tree    *tree             // nil in mangle, which holds no portals
	written map[string]string // chain → rules
	linked  []jump            // and the jumps to them
	rules   int               // in all of written and linked
	sent    int               // in scripts since that was told
}

func newTable(name string, r renderer) *table {
	r.filter = name == filterTable
	t := &table{renderer: r, name: name}
	if name != mangleTable {
		t.tree = newTree()
	}
	return t
}

// sync is the script that makes what a host holds into what is wanted, and records it as written.
func (t *table) sync(host saved) *script {
	t.written = t.fixed()
	if t.tree != nil {
		t.renderAll()
	}
	t.linked = t.jumps()
	t.rules = len(t.linked)
	s := &script{table: t.name, chains: map[string]string{}}
	for name, rules := range t.written {
		t.rules += count(rules)
		if held, ok := host.rules[name]; !ok || held != rules {
			s.chains[name] = rules
			t.sent += count(rules)
		}
	}
	for name := range host.rules {
		if _, ok := t.written[name]; !ok {
			s.discard = append(s.discard, name)
		}
	}
	s.unlink, s.link = relink(t.linked, host.jumps)
	return s
}

func (t *table) renderAll() {
	for _, id := range t.tree.all() {
		if name, rules, wanted := t.chain(t.tree, id); wanted {
			t.written[name] = rules
		}
	}
	t.tree.takeDirty()
}

// update is the script for what changed in the tree since the last sync or update, and records it as written.
func (t *table) update() *script {
	s := &script{table: t.name, chains: map[string]string{}}
	for _, id := range t.tree.takeDirty() {
		name, rules, wanted := t.chain(t.tree, id)
		held, there := t.written[name]
		switch {
		case wanted && (!there || held != rules):
			s.chains[name], t.written[name] = rules, rules
			t.rules += count(rules) - count(held)
			t.sent += count(rules)
		case !wanted && there:
			s.discard = append(s.discard, name)
			delete(t.written, name)
			t.rules -= count(held)
		}
	}
	if jumps := t.jumps(); !slices.Equal(jumps, t.linked) {
		s.unlink, s.link = relink(jumps, asForeign(t.linked))
		t.rules += len(jumps) - len(t.linked)
		t.linked = jumps
	}
	return s
}

func count(rules string) int { return strings.Count(rules, "\n") }

// removal is the script that leaves nothing of ours on a host.
func removal(table string, host saved) *script {
	s := &script{table: table, discard: slices.Collect(maps.Keys(host.rules))}
	for _, j := range host.jumps {
		s.unlink = append(s.unlink, j.rule)
	}
	return s
}

// fixed are the chains that do not depend on portals.
func (t *table) fixed() map[string]string {
	switch t.name {
	case filterTable:
		return map[string]string{t.guard: t.guardRules(), t.accept: t.acceptRules()}
	case mangleTable:
		return map[string]string{t.divert: t.divertRules()}
	}
	return map[string]string{}
}

// relink tells which rules of others' chains go and which come. A chain of jumps that stand there in their order, once
// each, is left alone, wherever they stand: others may have put theirs before.
func relink(wanted []jump, held []foreign) (unlink, link []string) {
	want, have := map[string][]string{}, map[string][]string{}
	for _, j := range wanted {
		want[j.chain] = append(want[j.chain], j.rule())
	}
	for _, h := range held {
		have[h.chain] = append(have[h.chain], h.rule)
	}
	for _, chain := range slices.Sorted(maps.Keys(have)) {
		if !slices.Equal(have[chain], want[chain]) {
			unlink = append(unlink, have[chain]...)
		}
	}
	stands := func(j jump) bool { return slices.Equal(have[j.chain], want[j.chain]) }
	for _, j := range slices.Backward(wanted) { // the last put first ends up behind
		if !j.last && !stands(j) {
			link = append(link, "-I "+j.chain+" 1"+strings.TrimPrefix(j.rule(), "-A "+j.chain))
		}
	}
	for _, j := range wanted {
		if j.last && !stands(j) {
			link = append(link, j.rule())
		}
	}
	return unlink, link
}

func (t *table) put(changes []portal.Change) {
	for _, c := range changes {
		t.tree.put(*c.Portal)
	}
}

func (t *table) remove(changes []portal.Change) {
	for _, c := range changes {
		t.tree.remove(c.Frontend)
	}
}

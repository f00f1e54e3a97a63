package iptables

import (
	"maps"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

// table is one table of one family: the portals in it and what was written.
type table struct {
	renderer
	name      string
	tree      *tree   // nil in mangle, which holds no portals
	owners    *owners // in nat alone
	spreading bool    // there is a portal that spreads, or was one
	extras    []writer.Chain
	guarded   *guarded // in filter alone
	checks    *checks  // in filter alone

	written ruleset
	groups  map[service.PortName][]string // names of the chains of an owner; of no owner, the fixed ones
	linked  []jump                        // and the jumps to them
	rules   int                           // in all of written and linked
	sent    int                           // in scripts since the last report
}

func newTable(name string, r renderer) *table {
	r.filter = name == filterTable
	t := &table{renderer: r, name: name}
	if r.filter {
		t.guarded, t.checks = &guarded{}, &checks{}
	}
	t.empty()
	return t
}

// empty removes all portals.
func (t *table) empty() {
	if t.name != mangleTable {
		t.tree = newTree()
	}
	if t.name == natTable {
		t.owners = newOwners()
	}
}

// sync returns the script that changes what a host holds to what is wanted, and records it as written.
func (t *table) sync(host saved) *script {
	t.written, t.groups, t.linked, t.rules = ruleset{}, map[service.PortName][]string{}, nil, 0
	if t.tree != nil {
		t.tree.touchAll()
	}
	if t.owners != nil {
		t.owners.touchAll()
	}
	s := t.update()
	for name, installed := range host.chains {
		if wanted, ok := t.written[name]; !ok {
			s.discard[name] = installed.depth
		} else if wanted.rules == installed.rules {
			delete(s.chains, name)
			t.sent -= count(installed.rules)
		}
	}
	maps.DeleteFunc(s.leaves, func(_ shard, name string) bool {
		_, written := s.chains[name]
		return !written
	})
	s.unlink, s.link = relink(t.linked, host.jumps)
	return s
}

// update returns the script for what changed since the last sync or update, and records it as written.
func (t *table) update() *script {
	s := newScript(t.name)
	if t.tree != nil {
		for _, id := range t.tree.takeDirty() {
			name, c, wanted := t.chain(t.tree, id)
			changes := wanted && t.write(s, name, c) || !wanted && t.discard(s, name)
			if changes && id.level == leaf {
				s.leaves[id.shard] = name
			}
		}
	}
	if t.owners != nil {
		for _, name := range t.owners.takeDirty() {
			t.regroup(s, name, t.ownerChains(t.owners.of(name)))
		}
	}
	t.regroup(s, service.PortName{}, t.fixed())
	if jumps := t.jumps(); !slices.Equal(jumps, t.linked) {
		s.unlink, s.link = relink(jumps, asForeign(t.linked))
		t.rules += len(jumps) - len(t.linked)
		t.linked = jumps
	}
	return s
}

func (t *table) write(s *script, name string, c chain) (changes bool) {
	old, there := t.written[name]
	if there && old == c {
		return false
	}
	s.chains[name], t.written[name] = c, c
	t.rules += count(c.rules) - count(old.rules)
	t.sent += count(c.rules)
	return true
}

func (t *table) discard(s *script, name string) (changes bool) {
	old, there := t.written[name]
	if !there {
		return false
	}
	s.discard[name] = old.depth
	delete(t.written, name)
	t.rules -= count(old.rules)
	return true
}

// regroup writes the chains of one owner, and discards others that it had before.
func (t *table) regroup(s *script, owner service.PortName, chains ruleset) {
	for _, name := range t.groups[owner] {
		if _, ok := chains[name]; !ok {
			t.discard(s, name)
		}
	}
	for name, c := range chains {
		t.write(s, name, c)
	}
	t.groups[owner] = slices.Collect(maps.Keys(chains))
	if len(chains) == 0 {
		delete(t.groups, owner)
	}
}

// removal returns the script that removes everything of ours from a host.
func removal(table string, host saved) *script {
	s := newScript(table)
	for name, c := range host.chains {
		s.discard[name] = c.depth
	}
	for _, j := range host.jumps {
		s.unlink = append(s.unlink, j.rule)
	}
	return s
}

// fixed are the chains that do not belong to portals.
func (t *table) fixed() ruleset {
	all := ruleset{}
	switch {
	case t.name == filterTable:
		maps.Copy(all, t.guardChains(t.guarded))
		if rules := t.checkRules(t.checks); rules != "" {
			all.add(t.accept, atTop, rules)
		}
	case t.name == mangleTable && t.mark != 0:
		all[t.divert] = chain{rules: t.divertRules()}
	}
	if t.spreading {
		all[t.canary] = chain{}
		switch t.name {
		case natTable:
			maps.Copy(all, t.marks())
		case filterTable:
			maps.Copy(all, t.guards())
		}
	}
	for _, x := range t.extras {
		all[x.Name] = chain{extraDepth(x), t.known(extraRules(x))}
	}
	return all
}

// put replaces the portal of a frontend.
func (t *table) put(p portal.Portal) {
	t.disown(p.Frontend)
	t.tree.put(p)
	if _, ok := p.Target.(portal.Spread); ok && t.owners != nil {
		t.owners.put(p)
	}
}

func (t *table) remove(f service.Frontend) {
	t.disown(f)
	t.tree.remove(f)
}

// disown removes a portal from its owner's.
func (t *table) disown(f service.Frontend) {
	if t.owners == nil {
		return
	}
	was, _ := t.tree.get(f)
	if _, ok := was.Target.(portal.Spread); ok {
		t.owners.remove(was)
	}
}

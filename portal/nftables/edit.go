package nftables

import (
	"cmp"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// edit is what makes one state of a table into another. Its parts stand in the order in which they can be made one by one:
// at each moment whatever leads somewhere finds it there, and a portal leads somewhere if it does before and after.
type edit struct {
	sets     []*set
	chains   []chain // to make, or to give other rules
	puts     []filled
	swaps    []filled // elements that are there, with another value
	drops    []filled
	late     []chain // as chains, without rules that are of no use now
	gone     []string
	goneSets []*set
	parting  []filled // as drops, of what packets that were led before ask for further on
	lost     []bonds  // to be gone through when all else is made
}

// bonds are the clients of a service port, and the numbers of the endpoints that it has.
type bonds struct {
	of   *set
	with map[uint32]bool
}

func (s *state) bonds(owner service.PortName) bonds {
	b := bonds{clientsID{owner}.set(), map[uint32]bool{}}
	for _, e := range slices.Concat(s.pools[owner].Cluster, s.pools[owner].Node) {
		b.with[number(e.Addr)] = true
	}
	return b
}

// loses tells whether an endpoint goes that clients may be bound to.
func loses(before, after *portal.Pool) bool {
	if before == nil || before.Affinity == 0 || after.Affinity == 0 {
		return false
	}
	now := slices.Concat(after.Cluster, after.Node)
	return slices.ContainsFunc(slices.Concat(before.Cluster, before.Node), func(e portal.Endpoint) bool {
		return !slices.ContainsFunc(now, func(o portal.Endpoint) bool { return o.Addr == e.Addr })
	})
}

// filled is an entry with its value.
type filled struct {
	entry
	value
}

func (e *edit) empty() bool {
	return len(e.sets)+len(e.chains)+len(e.puts)+len(e.swaps)+len(e.drops)+len(e.late)+len(e.gone)+len(e.goneSets)+len(e.parting) == 0
}

// edit compares entries before and after a change, and takes in what changed of shared needs.
func (s *state) edit(was, is map[entry]value, turned map[service.PortName]*portal.Pool) *edit {
	e := &edit{}
	for k, v := range is {
		if old, there := was[k]; !there {
			e.puts = append(e.puts, filled{k, v})
		} else if old != v {
			e.swaps = append(e.swaps, filled{k, v})
		}
	}
	for k, v := range was {
		if _, there := is[k]; !there {
			e.drops = append(e.drops, filled{k, v})
		}
	}
	came, went, stayed := s.needs.take()
	for _, need := range came {
		e.come(s, need)
	}
	for _, need := range went {
		e.leave(s, need)
	}
	for _, need := range stayed {
		if id, ok := need.(chainID); ok {
			if _, ok := turned[id.owner]; ok {
				e.chains = append(e.chains, s.chain(id, s.pools[id.owner]))
			}
		}
	}
	for owner, before := range turned {
		if loses(before, s.pools[owner]) {
			e.lost = append(e.lost, s.bonds(owner))
		}
	}
	e.classes(s)
	for _, f := range e.puts {
		s.sizes[f.set]++
	}
	for _, f := range slices.Concat(e.drops, e.parting) {
		if s.sizes[f.set]--; s.sizes[f.set] == 0 {
			delete(s.sizes, f.set)
		}
	}
	return e.sort()
}

func (e *edit) come(s *state, need any) {
	switch need := need.(type) {
	case entry:
		e.puts = append(e.puts, filled{entry: need})
	case chainID:
		e.chains = append(e.chains, s.chain(need, s.pools[need.owner]))
	case clientsID:
		e.sets = append(e.sets, need.set())
	}
}

func (e *edit) leave(s *state, need any) {
	switch need := need.(type) {
	case entry:
		if need.set == s.hairpins {
			e.parting = append(e.parting, filled{entry: need})
		} else {
			e.drops = append(e.drops, filled{entry: need})
		}
	case chainID:
		e.gone = append(e.gone, need.name())
		if s.needs.count[chainID{need.owner, pickCluster}]+s.needs.count[chainID{need.owner, pickNode}] == 0 {
			delete(s.pools, need.owner)
		}
	case clientsID:
		e.goneSets = append(e.goneSets, need.set())
	}
}

// classes has new classes come before their first portal, and old ones go after their last.
func (e *edit) classes(s *state) {
	came, went, _ := s.used.take()
	for _, c := range came {
		e.sets = append(e.sets, s.maps[c])
		e.chains = append(e.chains, c.chain(s.maps[c]))
	}
	for _, c := range went {
		e.gone = append(e.gone, c.name())
		e.goneSets = append(e.goneSets, s.maps[c])
		delete(s.maps, c)
	}
	for _, scope := range []scope{s.ips, s.nodePorts} {
		of := func(c class) bool { return c.scope == scope.name }
		if slices.ContainsFunc(came, of) {
			e.chains = append(e.chains, classesChain(scope, s.classes(scope, went)))
		}
		if slices.ContainsFunc(went, of) {
			e.late = append(e.late, classesChain(scope, s.classes(scope, nil)))
		}
	}
}

// sort makes the same change the same text.
func (e *edit) sort() *edit {
	for _, list := range [][]filled{e.puts, e.swaps, e.drops, e.parting} {
		slices.SortFunc(list, func(a, b filled) int {
			return cmp.Or(cmp.Compare(a.set.name, b.set.name), a.element.compare(b.element))
		})
	}
	byName := func(a, b *set) int { return cmp.Compare(a.name, b.name) }
	slices.SortFunc(e.sets, byName)
	slices.SortFunc(e.goneSets, byName)
	slices.SortFunc(e.chains, func(a, b chain) int { return cmp.Compare(a.name, b.name) })
	slices.Sort(e.gone)
	return e
}

// whole makes a new table of portals and open proxy ports: the edit that makes it from nothing.
func whole(r rules, portals []portal.Portal, open map[portal.ProxyPort]bool) (*state, *edit) {
	s := newState(r)
	s.guard(open)
	var changes []portal.Change
	for i, p := range portals {
		if r.owns(p.Frontend.Addr.Addr()) {
			changes = append(changes, portal.Change{Frontend: p.Frontend, Portal: &portals[i]})
		}
	}
	e := s.change(changes)
	e.sets = append(s.all(), e.sets...)
	all := s.fixed()
	for _, scope := range []scope{s.ips, s.nodePorts} {
		if len(s.classes(scope, nil)) == 0 {
			all = append(all, classesChain(scope, nil))
		}
	}
	e.chains = append(all, e.chains...)
	return s, e
}

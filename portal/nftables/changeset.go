package nftables

import (
	"cmp"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/layout"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
)

// changeset turns one state of a table into another. Its parts can be applied one by one, in their order: at each
// moment every jump and every lookup has its target, and a portal that exists before and after works.
type changeset struct {
	createSets  []*nft.Set
	writeChains []nft.Chain // created, or given other rules
	add         []nft.SetElement
	replace     []nft.SetElement // elements that get another value
	remove      []nft.SetElement
	trimChains  []nft.Chain // given rules without jumps to dropChains
	dropChains  []string
	dropSets    []*nft.Set
	retire      []nft.SetElement // removed a transaction later: see table.update
	unbind      []affinity       // at the end
}

func (c *changeset) empty() bool {
	return len(c.createSets)+len(c.writeChains)+len(c.add)+len(c.replace)+len(c.remove)+len(c.trimChains)+
		len(c.dropChains)+len(c.dropSets)+len(c.retire) == 0
}

// affinity is a set of clients, and the ids of the endpoints that they may be bound to.
type affinity struct {
	clients   *nft.Set
	endpoints map[uint32]bool
}

func (s *state) affinity(owner service.PortName) affinity {
	a := affinity{s.rules.Clients(owner), map[uint32]bool{}}
	for _, e := range slices.Concat(s.pools[owner].Cluster, s.pools[owner].Node) {
		a.endpoints[layout.EndpointID(e.Addr)] = true
	}
	return a
}

// losesEndpoint tells whether an endpoint is gone that clients may be bound to.
func losesEndpoint(before, after *portal.Pool) bool {
	if before == nil || before.Affinity == 0 || after.Affinity == 0 {
		return false
	}
	now := slices.Concat(after.Cluster, after.Node)
	return slices.ContainsFunc(slices.Concat(before.Cluster, before.Node), func(e portal.Endpoint) bool {
		return !slices.ContainsFunc(now, func(o portal.Endpoint) bool { return o.Addr == e.Addr })
	})
}

// changeset compares entries before and after a change, and takes what changed in reference counts. replaced are owners
// whose pool is another, with the one before.
func (s *state) changeset(
	before, after map[nft.Entry]nft.Value, replaced map[service.PortName]*portal.Pool,
) *changeset {
	c := &changeset{}
	c.compare(before, after)
	added, removed, kept := s.shared.Added(), s.shared.Removed(), s.shared.Kept()
	s.shared.Settle()
	for _, id := range added {
		c.create(s, id)
	}
	for _, id := range removed {
		c.drop(s, id)
	}
	for _, id := range kept {
		if id, ok := id.(layout.ChainID); ok {
			if _, ok := replaced[id.Owner]; ok {
				c.writeChains = append(c.writeChains, s.rules.Chain(id, s.pools[id.Owner]))
			}
		}
	}
	for owner, before := range replaced {
		if losesEndpoint(before, s.pools[owner]) {
			c.unbind = append(c.unbind, s.affinity(owner))
		}
	}
	c.changeClasses(s)
	s.resize(c)
	c.sort()
	return c
}

func (c *changeset) compare(before, after map[nft.Entry]nft.Value) {
	for e, v := range after {
		if old, there := before[e]; !there {
			c.add = append(c.add, nft.SetElement{Entry: e, Value: v})
		} else if old != v {
			c.replace = append(c.replace, nft.SetElement{Entry: e, Value: v})
		}
	}
	for e, v := range before {
		if _, there := after[e]; !there {
			c.remove = append(c.remove, nft.SetElement{Entry: e, Value: v})
		}
	}
}

// create creates something shared that has its first reference.
func (c *changeset) create(s *state, id any) {
	switch id := id.(type) {
	case nft.Entry:
		c.add = append(c.add, nft.SetElement{Entry: id})
	case layout.ChainID:
		c.writeChains = append(c.writeChains, s.rules.Chain(id, s.pools[id.Owner]))
	case layout.ClientsID:
		c.createSets = append(c.createSets, s.rules.Clients(id.Owner))
	}
}

// drop deletes something shared that has lost its last reference.
func (c *changeset) drop(s *state, id any) {
	switch id := id.(type) {
	case nft.Entry:
		if s.retires(id.Set) {
			c.retire = append(c.retire, nft.SetElement{Entry: id})
		} else {
			c.remove = append(c.remove, nft.SetElement{Entry: id})
		}
	case layout.ChainID:
		c.dropChains = append(c.dropChains, id.Name())
		toCluster := layout.ChainID{Owner: id.Owner, Role: layout.PickCluster}
		toNode := layout.ChainID{Owner: id.Owner, Role: layout.PickNode}
		if s.shared.Counts()[toCluster]+s.shared.Counts()[toNode] == 0 {
			delete(s.pools, id.Owner)
		}
	case layout.ClientsID:
		c.dropSets = append(c.dropSets, s.rules.Clients(id.Owner))
	}
}

// changeClasses creates classes before their first portal, and drops them after their last.
func (c *changeset) changeClasses(s *state) {
	added, removed := s.classes.Added(), s.classes.Removed()
	s.classes.Settle()
	for _, class := range added {
		c.createSets = append(c.createSets, s.endpoints[class])
		c.writeChains = append(c.writeChains, class.Chain(s.endpoints[class]))
	}
	for _, class := range removed {
		c.dropChains = append(c.dropChains, class.Name())
		c.dropSets = append(c.dropSets, s.endpoints[class])
		delete(s.endpoints, class)
	}
	for _, scope := range []layout.Scope{s.rules.Sets.Ips, s.rules.Sets.NodePorts} {
		of := func(c layout.Class) bool { return c.Scope == scope.Name }
		if slices.ContainsFunc(added, of) {
			c.writeChains = append(c.writeChains, layout.ClassesChain(scope, s.classesOf(scope, removed)))
		}
		if slices.ContainsFunc(removed, of) {
			c.trimChains = append(c.trimChains, layout.ClassesChain(scope, s.classesOf(scope, nil)))
		}
	}
}

// sort makes the order independent of the order of maps.
func (c *changeset) sort() {
	for _, list := range [][]nft.SetElement{c.add, c.replace, c.remove, c.retire} {
		slices.SortFunc(list, func(a, b nft.SetElement) int {
			return cmp.Or(cmp.Compare(a.Set.Name, b.Set.Name), a.Element.Compare(b.Element))
		})
	}
	byName := func(a, b *nft.Set) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(c.createSets, byName)
	slices.SortFunc(c.dropSets, byName)
	slices.SortFunc(c.writeChains, func(a, b nft.Chain) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(c.dropChains)
}

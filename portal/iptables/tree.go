package iptables

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// tree holds the portals of one table of one family by leaf, and which chains have to be written.
type tree struct {
	leaves map[shard]map[service.Frontend]portal.Portal // never empty
	used   [groups]uint32                               // the leaves of a group that exist, a bit each
	blocks map[netip.Prefix]int                         // portals in each block of addresses, never 0
	nodes  int                                          // leaves of NodePorts
	dirty  map[chainID]struct{}
}

// chainID identifies a chain of the tree.
type chainID struct {
	level level
	shard shard // of a leaf; of a group the group alone
}

type level uint8

const (
	top level = iota
	nodes
	byAddress
	group
	leaf
)

func newTree() *tree {
	return &tree{
		leaves: map[shard]map[service.Frontend]portal.Portal{}, blocks: map[netip.Prefix]int{},
		dirty: map[chainID]struct{}{{level: top}: {}},
	}
}

func (t *tree) put(p portal.Portal) {
	s := shardOf(p.Frontend)
	if t.leaves[s] == nil {
		t.leaves[s] = map[service.Frontend]portal.Portal{}
		t.appear(s)
	}
	if _, ok := t.leaves[s][p.Frontend]; !ok && !s.nodePort() {
		t.enter(blockOf(p.Frontend.Addr.Addr()))
	}
	t.leaves[s][p.Frontend] = p
	t.dirty[chainID{leaf, s}] = struct{}{}
}

func (t *tree) remove(f service.Frontend) {
	s := shardOf(f)
	if _, ok := t.leaves[s][f]; !ok {
		return
	}
	t.dirty[chainID{leaf, s}] = struct{}{}
	delete(t.leaves[s], f)
	if len(t.leaves[s]) == 0 {
		delete(t.leaves, s)
		t.vanish(s)
	}
	if !s.nodePort() {
		t.leave(blockOf(f.Addr.Addr()))
	}
}

// enter and leave count the portals of blocks.
func (t *tree) enter(block netip.Prefix) {
	if t.blocks[block]++; t.blocks[block] == 1 {
		t.dirty[chainID{level: top}] = struct{}{}
	}
}

func (t *tree) leave(block netip.Prefix) {
	if t.blocks[block]--; t.blocks[block] == 0 {
		delete(t.blocks, block)
		t.dirty[chainID{level: top}] = struct{}{}
	}
}

// appear and vanish count the leaves.
func (t *tree) appear(s shard) {
	if s.nodePort() {
		t.nodes++
		t.touchParents(s, t.nodes == 1)
		return
	}
	first := t.used[s.group] == 0
	t.used[s.group] |= 1 << s.leaf
	t.touchParents(s, first)
}

func (t *tree) vanish(s shard) {
	if s.nodePort() {
		t.nodes--
		t.touchParents(s, t.nodes == 0)
		return
	}
	t.used[s.group] &^= 1 << s.leaf
	t.touchParents(s, t.used[s.group] == 0)
}

// touchParents marks the chain that jumps to a leaf, and the one above if that chain itself is added or removed.
func (t *tree) touchParents(s shard, andAbove bool) {
	parent, above := chainID{group, shard{group: s.group}}, chainID{level: byAddress}
	if s.nodePort() {
		parent, above = chainID{level: nodes}, chainID{level: top}
	}
	t.dirty[parent] = struct{}{}
	if andAbove {
		t.dirty[above] = struct{}{}
	}
}

// takeDirty returns the chains that changed since the last call.
func (t *tree) takeDirty() []chainID {
	ids := slices.Collect(maps.Keys(t.dirty))
	t.dirty = map[chainID]struct{}{} // clear would keep, and walk, the size of the largest change
	return ids
}

func (t *tree) get(f service.Frontend) (portal.Portal, bool) {
	p, ok := t.leaves[shardOf(f)][f]
	return p, ok
}

func (t *tree) has(f service.Frontend) bool {
	_, ok := t.get(f)
	return ok
}

func (t *tree) portals() []portal.Portal {
	var out []portal.Portal
	for _, leaf := range t.leaves {
		out = slices.AppendSeq(out, maps.Values(leaf))
	}
	return out
}

func (t *tree) nodePortShards() []shard {
	var out []shard
	for s := range t.leaves {
		if s.nodePort() {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, shard.compare)
	return out
}

// touchAll marks every chain.
func (t *tree) touchAll() {
	t.dirty = map[chainID]struct{}{{level: top}: {}, {level: nodes}: {}, {level: byAddress}: {}}
	for n := range uint8(groups) {
		t.dirty[chainID{group, shard{group: n}}] = struct{}{}
	}
	for s := range t.leaves {
		t.dirty[chainID{leaf, s}] = struct{}{}
	}
}

package translate

import "sync"

// watchers are those who are told of this node.
type watchers struct {
	mu   sync.Mutex // held while they are told, so that they see states in order
	all  []func(node Node, known bool)
	node Node // as it was told last
	has  bool
}

// Node is this node as its Node object describes it; false when there is none (yet).
func (c *Cache) Node() (Node, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.node == nil {
		return Node{}, false
	}
	return c.node.node, true
}

// WatchNode has f called with this node, at once if it is known and then whenever what is known of it changes; not known
// means that its Node object is gone. Calls come one at a time; f must neither block nor call WatchNode.
func (c *Cache) WatchNode(f func(node Node, known bool)) {
	w := &c.watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, f)
	if w.has {
		f(w.node, true)
	}
}

// tellNode tells the watchers of this node, if there is something new to tell.
func (c *Cache) tellNode() {
	w := &c.watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	node, has := c.Node()
	if has == w.has && node.Equal(w.node) {
		return
	}
	if !has {
		c.log.Warnf("node %s: its Node object is gone; what is served stays as it is", w.node.Name)
	}
	w.node, w.has = node, has
	for _, f := range w.all {
		f(node, has)
	}
}

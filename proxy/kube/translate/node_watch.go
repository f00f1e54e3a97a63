package translate

import "sync"

// nodeWatchers are called when this node changes.
type nodeWatchers struct {
	mu    sync.Mutex // held during calls, so that states arrive in order
	all   []func(node Node, known bool)
	node  Node // as of the last call
	known bool
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

// WatchNode calls f with this node, at once if it is known and then whenever it changes; known is false when its Node
// object was removed. Calls come one at a time; f must neither block nor call WatchNode.
func (c *Cache) WatchNode(f func(node Node, known bool)) {
	w := &c.watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, f)
	if w.known {
		f(w.node, true)
	}
}

// notifyNode calls the watchers if this node changed since the last call.
func (c *Cache) notifyNode() {
	w := &c.watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	node, known := c.Node()
	if known == w.known && node.Equal(w.node) {
		return
	}
	if !known {
		c.log.Warnf("Node %s: its Node object was removed; this node serves Services as before", w.node.Name)
	}
	w.node, w.known = node, known
	for _, f := range w.all {
		f(node, known)
	}
}

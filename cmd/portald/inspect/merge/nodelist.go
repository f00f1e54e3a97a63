package merge

import (
	"context"
	"slices"
	"sync"
	"time"
)

// nodeList is the nodes there are, which are listed again now and then while they are asked. Safe for concurrent use.
type nodeList struct {
	Options

	mu      sync.Mutex
	nodes   []Node    // guarded by mu; replaced, not changed
	listed  time.Time // guarded by mu
	listing bool      // guarded by mu
}

// get returns the nodes. It does not wait for a new list of them.
func (l *nodeList) get() []Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.List != nil && !l.listing && time.Since(l.listed) >= l.Relist {
		l.listing = true
		go l.list()
	}
	return l.nodes
}

// list adds the nodes that are not known. None is dropped: one whose pod is being replaced is not there for a moment,
// and one that has gone is reported as any that does not answer.
func (l *nodeList) list() {
	ctx, cancel := context.WithTimeout(context.Background(), l.Relist)
	defer cancel()
	all, err := l.List(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listing, l.listed = false, time.Now()
	if err != nil {
		return
	}
	nodes := slices.Clone(l.nodes)
	for _, n := range all {
		if !slices.ContainsFunc(nodes, func(other Node) bool { return other.Name == n.Name }) {
			nodes = append(nodes, n)
		}
	}
	l.nodes = nodes
}

package cluster

import (
	"context"
	"sync"
	"time"
)

// atOnce bounds how many nodes run a command at the same time.
const atOnce = 32

// Each asks the nodes, many at a time, and returns what each said, in their order. A node that takes longer than the
// limit, or fails, has said the zero value, and failed is called with its error.
func Each[T any](
	ctx context.Context, nodes []Node, limit time.Duration, ask func(context.Context, *Node) (T, error),
	failed func(node string, err error),
) []T {
	said, places := make([]T, len(nodes)), make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range nodes {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			value, err := ask(ctx, &nodes[i])
			if err != nil {
				failed(nodes[i].Name, err)
				return
			}
			said[i] = value
		})
	}
	all.Wait()
	return said
}

package webui

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
)

// Node is a portald that is asked.
type Node struct {
	Name   string // empty: as it calls itself
	Client *adminsocket.Client
}

// answer is what one node said.
type answer[T any] struct {
	node string
	it   T
	err  error
}

// asked is a node that is asked, by its name.
type asked struct {
	name   string
	client *adminsocket.Client
}

// ask asks nodes at the same time, and gives each so long. The answers are in the order of the nodes.
func ask[T any](
	ctx context.Context, limit time.Duration, nodes []asked,
	question func(context.Context, *adminsocket.Client) (T, error),
) []answer[T] {
	ctx, cancel := within(ctx, limit)
	defer cancel()
	out := make([]answer[T], len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			it, err := question(ctx, n.client)
			out[i] = answer[T]{n.name, it, why(ctx, err)}
		})
	}
	wg.Wait()
	return out
}

// within ends ctx after a time.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
}

// why is the error, or what has ended ctx.
func why(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Away is a node that does not answer.
type Away struct {
	Node string `json:"portald_node"`
	Why  string `json:"why"`
}

// apart parts the answers from the nodes that gave none.
func apart[T any](all []answer[T]) (good []answer[T], away []Away) {
	for _, a := range all {
		if a.err != nil {
			away = append(away, Away{a.node, a.err.Error()})
		} else {
			good = append(good, a)
		}
	}
	return good, away
}

package answers

import (
	"context"
	"time"
)

// Seldom is the result of a reading that may take long. It is used again for so long that readings take no more than a
// tenth of the time.
type Seldom[T any] struct {
	turn  chan struct{} // of the one that reads, or uses what follows
	last  T
	until time.Time // last is used again
}

// NewSeldom returns one without a result.
func NewSeldom[T any]() *Seldom[T] { return &Seldom[T]{turn: make(chan struct{}, 1)} }

// readTime is how long a reading may take, with the wait for another one.
const readTime = 5 * time.Second

// Get returns the result, which is not to be changed; the zero value if another reading took too long.
func (s *Seldom[T]) Get(ctx context.Context, read func(context.Context) T) (result T) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return result
	}
	began := time.Now()
	if began.Before(s.until) {
		return s.last
	}
	s.last = read(ctx)
	now := time.Now()
	s.until = now.Add(9 * now.Sub(began))
	return s.last
}

package quota

import (
	"iter"
	"sync/atomic"
)

// Largest finds the one of many that has the most, or one with half as many: a search takes time, so it is repeated
// only once what was found has lost half of what it had. Safe for concurrent use. The zero Largest has found nothing.
type Largest[T any] struct {
	at  atomic.Pointer[T]
	had atomic.Int64
}

// Find returns it, nil if there is none.
func (l *Largest[T]) Find(has func(*T) int64, all iter.Seq[*T]) *T {
	if of := l.at.Load(); of != nil && has(of) > l.had.Load()/2 {
		return of
	}
	var most *T
	for of := range all {
		if most == nil || has(of) > has(most) {
			most = of
		}
	}
	if most != nil {
		l.had.Store(has(most))
	}
	l.at.Store(most)
	return most
}

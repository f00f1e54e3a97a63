package epoll

// quantumQueue has those who have more to do than one quantum allows, first come, first served. A lap is over when
// all who were queued when it began have had one.
type quantumQueue[T any] struct {
	lap, next []T // this lap, and those who came since it began
	at        int // how far the lap has come
}

func (q *quantumQueue[T]) add(x T) { q.next = append(q.next, x) }

// begin starts another lap if the last one is over.
func (q *quantumQueue[T]) begin() {
	if !q.over() {
		return
	}
	clear(q.lap)
	q.lap, q.next, q.at = q.next, q.lap[:0], 0
}

// take returns who is next in this lap, false at its end.
func (q *quantumQueue[T]) take() (x T, ok bool) {
	if q.over() {
		return x, false
	}
	q.at++
	return q.lap[q.at-1], true
}

// over tells whether all in this lap have had a quantum.
func (q *quantumQueue[T]) over() bool { return q.at == len(q.lap) }

func (q *quantumQueue[T]) empty() bool { return q.over() && len(q.next) == 0 }

package epoll

// turns is a queue of those who have more to do than one turn allows, first come, first served. A lap is over when all
// who waited as it began have had theirs.
type turns[T any] struct {
	lap, next []T // this lap, and those who came meanwhile
	at        int // how far the lap has come
}

func (q *turns[T]) add(x T) { q.next = append(q.next, x) }

// begin starts another lap where the last is over.
func (q *turns[T]) begin() {
	if !q.over() {
		return
	}
	clear(q.lap)
	q.lap, q.next, q.at = q.next, q.lap[:0], 0
}

// take returns whose turn it is, false at the end of the lap.
func (q *turns[T]) take() (x T, ok bool) {
	if q.over() {
		return x, false
	}
	q.at++
	return q.lap[q.at-1], true
}

// over tells that everyone in this lap had a turn.
func (q *turns[T]) over() bool { return q.at == len(q.lap) }

func (q *turns[T]) empty() bool { return q.over() && len(q.next) == 0 }

package splice

import "time"

// sessionList is a doubly linked list of sessions. Each session has two pairs of links; at tells which of them it uses.
type sessionList struct {
	at          uint8
	first, last *session
}

type sessionLinks struct{ prev, next *session }

// The lists that a session is in: of its socket, and of its client.
const (
	ofSocket uint8 = iota
	ofClient
)

func (q *sessionList) append(s *session) {
	s.links[q.at] = sessionLinks{prev: q.last}
	if q.last != nil {
		q.last.links[q.at].next = s
	} else {
		q.first = s
	}
	q.last = s
}

func (q *sessionList) remove(s *session) {
	at := s.links[q.at]
	if at.prev != nil {
		at.prev.links[q.at].next = at.next
	} else {
		q.first = at.next
	}
	if at.next != nil {
		at.next.links[q.at].prev = at.prev
	} else {
		q.last = at.prev
	}
	s.links[q.at] = sessionLinks{}
}

// byUse is sessions in two rows, least recently used first: those whose endpoint had the last word, and those who wait for it.
type byUse struct{ answered, waiting sessionList }

func newByUse(at uint8) byUse { return byUse{sessionList{at: at}, sessionList{at: at}} }

func (b *byUse) row(s *session) *sessionList {
	if s.waiting {
		return &b.waiting
	}
	return &b.answered
}

// idlest is the least recently used of all, nil if there is none.
func (b *byUse) idlest() *session {
	a, w := b.answered.first, b.waiting.first
	if a == nil || w != nil && w.last < a.last {
		return w
	}
	return a
}

// answerTime is how long an answer may be under way: who has waited for longer most likely gets none.
const answerTime = 5 * time.Second

// expendable is who makes room for another: one that has its answer goes before one that waits for it.
func (b *byUse) expendable(now time.Duration) *session {
	a, w := b.answered.first, b.waiting.first
	if a == nil || w != nil && w.last+answerTime <= now {
		return w
	}
	return a
}

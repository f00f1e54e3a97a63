package splice

import (
	"cmp"
	"time"
)

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

// byUse is sessions in rows, least recently used first: those whose endpoint had the last word, and those who wait for it.
// Those that leave are in rows of their own, in the order in which they came there.
type byUse struct{ answered, waiting, leaving, leavingWaiting sessionList }

func newByUse(at uint8) byUse {
	list := sessionList{at: at}
	return byUse{list, list, list, list}
}

func (b *byUse) row(s *session) *sessionList {
	switch {
	case s.leaving && s.waiting:
		return &b.leavingWaiting
	case s.leaving:
		return &b.leaving
	case s.waiting:
		return &b.waiting
	default:
		return &b.answered
	}
}

// departing are the rows of those that leave.
func (b *byUse) departing() [2]*sessionList { return [2]*sessionList{&b.leaving, &b.leavingWaiting} }

// idlest is the least recently used of those that stay, nil if there is none.
func (b *byUse) idlest() *session {
	a, w := b.answered.first, b.waiting.first
	if a == nil || w != nil && w.last < a.last {
		return w
	}
	return a
}

// expendable is who makes room for another, nil if there is none: one that has its answer goes before one that waits for it,
// and of those one that leaves before one that stays.
func (b *byUse) expendable(now time.Duration) *session {
	w := b.waiting.first
	if w != nil && w.last+answerTime <= now && b.leaving.first == nil {
		return w
	}
	return cmp.Or(b.leaving.first, b.answered.first, b.leavingWaiting.first, w)
}

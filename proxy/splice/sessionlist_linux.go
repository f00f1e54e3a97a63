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

// byUse is sessions in three rows: those whose endpoint had the last word, and those who wait for it, least recently used
// first; and those that leave, in the order in which they do.
type byUse struct{ answered, waiting, leaving sessionList }

func newByUse(at uint8) byUse {
	return byUse{sessionList{at: at}, sessionList{at: at}, sessionList{at: at}}
}

func (b *byUse) row(s *session) *sessionList {
	switch {
	case s.leaving:
		return &b.leaving
	case s.waiting:
		return &b.waiting
	default:
		return &b.answered
	}
}

// idlest is the least recently used of those that stay, nil if there is none.
func (b *byUse) idlest() *session {
	a, w := b.answered.first, b.waiting.first
	if a == nil || w != nil && w.last < a.last {
		return w
	}
	return a
}

// answerTime is how long an answer may be under way: who has waited for longer most likely gets none.
const answerTime = 5 * time.Second

// expendable is who makes room for another, nil if there is none: one that leaves goes before one that stays, and one that has
// its answer before one that waits for it.
func (b *byUse) expendable(now time.Duration) *session {
	l, a, w := b.leaving.first, b.answered.first, b.waiting.first
	switch {
	case l != nil && !l.waiting:
		return l
	case w != nil && w.last+answerTime <= now:
		return w
	case a != nil:
		return a
	case l != nil:
		return l
	default:
		return w
	}
}

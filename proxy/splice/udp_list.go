package splice

import (
	"cmp"
	"time"
)

// sessionList is a doubly linked list of sessions. Each session has two pairs of links; at tells which of them it uses.
type sessionList struct {
	at          uint8
	first, last *Session
}

type sessionLinks struct{ prev, next *Session }

// A session is in one list of its socket, and in one of its client address.
const (
	ofSocket uint8 = iota
	ofClient
)

func (q *sessionList) append(s *Session) {
	s.links[q.at] = sessionLinks{prev: q.last}
	if q.last != nil {
		q.last.links[q.at].next = s
	} else {
		q.first = s
	}
	q.last = s
}

func (q *sessionList) remove(s *Session) {
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

// sessionLists are the sessions of a socket or of a client address. Those that are attached to their client are in the
// order of their last use: answered if the last datagram came from the endpoint, else waiting. Detached ones are in the
// order in which they came to their list.
type sessionLists struct{ answered, awaitingReply, detached, detachedAwaitingReply sessionList }

func newSessionLists(at uint8) sessionLists {
	list := sessionList{at: at}
	return sessionLists{list, list, list, list}
}

// of is the list that a session belongs to.
func (l *sessionLists) of(s *Session) *sessionList {
	switch {
	case s.detached && s.awaitingReply:
		return &l.detachedAwaitingReply
	case s.detached:
		return &l.detached
	case s.awaitingReply:
		return &l.awaitingReply
	default:
		return &l.answered
	}
}

// leastRecent is the attached session that was used the longest time ago, nil if there is none.
func (l *sessionLists) leastRecent() *Session {
	a, w := l.answered.first, l.awaitingReply.first
	if a == nil || w != nil && w.life.entry.lastMoved() < a.life.entry.lastMoved() {
		return w
	}
	return a
}

// victim is the session that is evicted to make room for another, nil if there is none: one that has its answer before
// one that waits for it, and of these a detached one before one that is attached to its client. One that has waited for
// longer than answerTime comes before all but detached ones that have their answer.
func (l *sessionLists) victim(now time.Duration) *Session {
	w := l.awaitingReply.first
	if w != nil && w.life.entry.lastMoved()+answerTime <= now && l.detached.first == nil {
		return w
	}
	return cmp.Or(l.detached.first, l.answered.first, l.detachedAwaitingReply.first, w)
}

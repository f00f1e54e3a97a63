package splice

// sessionList is a doubly linked list of sessions.
type sessionList struct{ first, last *session }

func (q *sessionList) append(s *session) {
	s.prev, s.next = q.last, nil
	if q.last != nil {
		q.last.next = s
	} else {
		q.first = s
	}
	q.last = s
}

func (q *sessionList) remove(s *session) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		q.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		q.last = s.prev
	}
	s.prev, s.next = nil, nil
}

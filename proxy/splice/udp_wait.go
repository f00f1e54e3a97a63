package splice

import (
	"bytes"
	"time"

	"github.com/portald/portald/proxy/record"
)

// sessionWaiting is a session that waits for an endpoint, or may have to.
type sessionWaiting struct{ *Session }

func (s *Session) waiter() sessionWaiting { return sessionWaiting{s} }

// waits tells whether the session waits for an endpoint. Datagrams of its client are buffered then.
func (s sessionWaiting) waits() bool { return s.life.queue.wait != nil && s.life.queue.wait.asleep }

// await waits for an endpoint until that time, or until endpoints change. A datagram that an endpoint which is gone has
// lost is buffered again.
func (s sessionWaiting) await(until time.Duration) {
	now := s.table.core().Now()
	s.life.queue.enter(&s.life.entry, sessionWaiter(s), s.client.quota, now)
	s.life.queue.wait.asleep = true
	if s.life.result.connect >= 0 {
		s.life.result.connect = -1
		if s.unanswered != nil && len(s.buffered) == 0 {
			s.buffered.add(s.unanswered, s.client.quota)
		}
	}
	if s.life.dial.refreshed(&s.life.entry) {
		until = now
	}
	s.life.queue.wait.timer = time.AfterFunc(until-now, sessionWaiter(s).Turn)
}

// sessionWaiter is a session as the queue sees it, which tells it that its wait is over.
type sessionWaiter struct{ *Session }

// Turn has the session look for an endpoint again.
func (w sessionWaiter) Turn() {
	s := w.Session
	s.table.socket.Do(s.waiter().redial)
}

// Evicted ends the session: too many of the Service wait.
func (w sessionWaiter) Evicted() {
	s := w.Session
	s.table.socket.Do(func() {
		if s.life.queue.waits() {
			s.end(record.Proxy, record.Reset, record.OutcomeWaitLimit)
		}
	})
}

// redial looks for an endpoint again.
func (s sessionWaiting) redial() {
	if s.over {
		return
	}
	if !s.waits() || s.departing {
		s.life.queue.pass(&s.life.entry)
		return
	}
	s.life.queue.wait.asleep = false
	s.life.queue.wait.timer.Stop()
	s.findEndpoint(s.table.core().Now())
}

// findEndpoint dials again, and forwards the buffered datagrams if it has an endpoint then.
func (s sessionWaiting) findEndpoint(now time.Duration) {
	s.life.dial.refreshed(&s.life.entry)
	next := s.life.dial.next(&s.life.entry, now)
	s.life.queue.pass(&s.life.entry)
	if o := s.advance(next); o != "" {
		s.end(record.Proxy, record.Reset, o)
		return
	}
	s.forwardBuffered()
}

// bufferLast keeps a datagram in place of the one before: a client that waits sends again, and wants one answer. One
// that is large is lost, as datagrams may be.
func (s sessionWaiting) bufferLast(data []byte) {
	if len(data) > maxUnanswered {
		s.Dropped()
		return
	}
	for range s.buffered.take(s.client.quota) {
		s.Dropped()
	}
	last := bytes.Clone(data)
	if !s.buffered.add(last, s.client.quota) {
		s.Dropped()
	}
	if s.unanswered != nil {
		s.unanswered = last
	}
}

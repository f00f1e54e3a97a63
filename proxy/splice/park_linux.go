package splice

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// park has a connection or session wait for an answer of the host that is not at hand. then is told on the loop, whether
// who is still alive or not. A connection that is parked does not move to another loop.
func (l *loop) park(who liver, ask func() bool, then func(answer bool)) {
	if l.parked == nil {
		l.parked = map[liver]struct{}{}
	}
	l.parked[who] = struct{}{}
	l.engine.core.asker.ask(func() {
		answer := ask()
		l.do(func() {
			delete(l.parked, who)
			then(answer)
		})
	})
}

// mostHeld bounds the datagrams that a session keeps while it is parked. A resolver asks for two addresses at once.
const mostHeld = 8

// park has a session wait, with what its client sends meanwhile.
func (s *session) park(ask func() bool, then func(answer bool) Outcome) {
	s.parked, s.gone = true, false
	s.sock.l.park(s, ask, func(answer bool) {
		if s.over {
			return
		}
		s.parked = false
		if o := then(answer); o != "" {
			s.end(Proxy, Reset, o)
			return
		}
		s.sendHeld()
	})
}

func (s *session) sendHeld() {
	held := s.held
	s.held = nil
	for _, data := range held {
		if s.over {
			s.sock.deliver(data, &s.name, s.key.local, s.iface)
		} else {
			s.forward(data) // and is held anew if the session was parked again
		}
	}
}

// hold keeps a datagram until the session has an endpoint.
func (s *session) hold(data []byte) {
	if len(s.held) == mostHeld {
		s.sock.front.engine.udpDropped.Add(1)
		return
	}
	s.held = append(s.held, bytes.Clone(data))
}

// resume goes on with the attempt that had to wait for Options.Returns, unless its endpoint went meanwhile.
func (s *session) resume(asClient bool) Outcome {
	if s.gone {
		s.lease.GiveUp(0)
		s.failed(errGone)
		return s.dial()
	}
	if o, done := s.reach(asClient); done {
		return o
	}
	return s.dial()
}

// errGone is the error of an attempt whose endpoint went before it was made.
const errGone = unix.EHOSTUNREACH

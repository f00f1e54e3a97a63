package splice

import "bytes"

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

// park has a session wait for the host, with what its client sends meanwhile.
func (s *session) park(ask func() bool) {
	s.sock.l.park(s, ask, func(yes bool) {
		if s.over {
			return
		}
		if o := s.advance(s.answered(yes, s.sock.l.clock())); o != "" {
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

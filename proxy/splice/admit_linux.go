package splice

import (
	"net/netip"

	"github.com/portald/portald/proxy/service"
)

// admit begins to dial for a connection that is let in, and resets any other.
// admit opens a session for a client that wrote to one of this service port's frontends, nil if there can be none.
func (u *udpSocket) admit(key sessionKey, name sockaddr, iface uint32) *session {
	s := newSession(u, key, name, iface)
	if o := s.admit(); o != "" {
		s.report(Proxy, Reset, o, u.l.clock())
		return nil
	}
	s.enter()
	return s
}

// admit does for a session what it does for a connection. The outcome is empty when an endpoint was found, or is being
// looked for.
func (s *session) admit() Outcome {
	u := s.sock
	if o := s.life.admit(u.originalDst(s.key, s.plan)); o != "" {
		return o
	}
	o := OutcomeResources
	s.talker = u.talker(s.clientAddr())
	if u.makeRoom(s.talker) {
		if o = s.advance(s.start(int(s.iface), u.l.clock())); o == "" {
			return ""
		}
		u.front.engine.account.giveSession(s.talker.holder)
	}
	u.hangUp(s.talker)
	s.uncount()
	return o
}

// originalDst tells what the client wrote to. Once a rule guards the port only translated flows get here, so where the front
// has a single frontend it was that one; to ask the kernel is an eighth of a short session's cost. A NodePort stands for
// several addresses, of which the kernel knows the one.
func (u *udpSocket) originalDst(key sessionKey, p *plan) netip.AddrPort {
	local := netip.AddrPortFrom(key.local, u.port)
	ask := u.front.engine.opts.OriginalDstUDP
	if ask == nil {
		return local
	}
	if u.guarded.Load() && len(p.Exposures) == 1 && p.Exposures[0].Kind != service.NodePort {
		return p.Exposures[0].Frontend.Addr
	}
	if dst, err := ask(key.client, local); err == nil {
		return dst
	}
	return local
}

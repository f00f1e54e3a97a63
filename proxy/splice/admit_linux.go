package splice

import (
	"net/netip"

	"github.com/portald/portald/proxy/service"
)

// admit lets a connection in that was dialled at one of this service port's frontends, from where that is allowed, as
// long as there are not too many. Anything else came straight at the proxy port, or was led here by somebody else: it is
// reset.
func (c *conn) admit() {
	c.rec.OriginalDst = c.originalDst()
	exposed, ok := c.plan.exposure(c.rec.OriginalDst)
	if !ok {
		c.refuse(OutcomeNotPortal)
		return
	}
	c.rec.Portal = exposed.Kind
	client := c.rec.Client.Addr()
	if !c.plan.admits(client, exposed.Kind) {
		c.refuse(OutcomeSourceRange)
		return
	}
	if c.surplus {
		c.refuse(OutcomeLimit)
		return
	}
	if c.short {
		c.front.engine.opts.Trouble(ErrDescriptors)
		c.refuse(OutcomeResources)
		return
	}
	var depends bool
	if c.scope, depends = c.plan.scope(exposed.Kind); depends {
		c.locate()
		return
	}
	c.dial()
}

// locate finds out whether the client is inside.
func (c *conn) locate() {
	o, client := &c.front.engine.opts, c.rec.Client.Addr()
	iface := arrivedBy(c.client.fd, service.FamilyOf(client))
	inside, known := o.InsideKnown(client, iface)
	if !known {
		c.l.park(c, func() bool { return o.Inside(client, iface) }, c.located)
		return
	}
	c.located(inside)
}

func (c *conn) located(inside bool) {
	if c.stage == over {
		return
	}
	if inside {
		c.scope = service.ClusterScope
	}
	c.dial()
}

func (c *conn) originalDst() netip.AddrPort {
	if ask := c.front.engine.opts.OriginalDst; ask != nil {
		if dst, err := ask(int(c.client.fd), service.FamilyOf(c.rec.Client.Addr())); err == nil {
			return dst
		}
	}
	return localAddr(int(c.client.fd))
}

// admit opens a session for a client that wrote to one of this service port's frontends, nil if there can be none.
func (u *udpSocket) admit(key sessionKey, name sockaddr, iface uint32) *session {
	s := newSession(u, key, name, iface)
	if o := s.admit(); o != "" {
		s.report(Proxy, Reset, o)
		return nil
	}
	s.enter()
	return s
}

// admit does for a session what it does for a connection. The outcome is empty when an endpoint was found, or is being
// looked for.
func (s *session) admit() Outcome {
	u, client := s.sock, s.key.client.Addr()
	s.rec.OriginalDst = u.originalDst(s.key, s.plan)
	exposed, ok := s.plan.exposure(s.rec.OriginalDst)
	if !ok {
		return OutcomeNotPortal
	}
	s.rec.Portal = exposed.Kind
	if !s.plan.admits(client, exposed.Kind) {
		return OutcomeSourceRange
	}
	if !u.front.join(s.plan) {
		u.front.leave()
		return OutcomeLimit
	}
	o := OutcomeResources
	s.talker = u.talker(client)
	if u.makeRoom(s.talker) {
		if o = s.begin(exposed.Kind); o == "" {
			return ""
		}
		u.front.engine.account.giveSession(s.talker.holder)
	}
	u.hangUp(s.talker)
	u.front.leave()
	return o
}

// begin finds an endpoint, once it is known for whom.
func (s *session) begin(kind service.Kind) Outcome {
	var depends bool
	if s.scope, depends = s.plan.scope(kind); !depends {
		return s.dial()
	}
	o, client, iface := &s.sock.front.engine.opts, s.key.client.Addr(), int(s.iface)
	inside, known := o.InsideKnown(client, iface)
	if !known {
		s.park(func() bool { return o.Inside(client, iface) }, s.located)
		return ""
	}
	return s.located(inside)
}

func (s *session) located(inside bool) Outcome {
	if inside {
		s.scope = service.ClusterScope
	}
	return s.dial()
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

// join counts a connection or session among the live ones of the front, until leave. False: it is one more than there may
// be.
func (f *Front) join(p *plan) bool {
	n, most := f.active.Add(1), p.policy.MaxConnections
	return most <= 0 || n <= int64(most)
}

func (f *Front) leave() { f.active.Add(-1) }

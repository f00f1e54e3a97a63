package splice

import "net/netip"

// talker is a client address of a UDP socket with its sessions.
type talker struct {
	holder *holder
	byUse  byUse
	n      int // sessions, with those that are about to be
}

// talker finds a client, or begins it, for one session more, until hangUp.
func (u *udpSocket) talker(addr netip.Addr) *talker {
	t := u.talkers[addr]
	if t == nil {
		f := u.front
		t = &talker{holder: f.engine.account.holder(f.tenant, addr), byUse: newByUse(ofClient)}
		u.talkers[addr] = t
	}
	t.n++
	u.n.Add(1)
	return t
}

func (u *udpSocket) hangUp(t *talker) {
	u.n.Add(-1)
	if t.n--; t.n == 0 {
		delete(u.talkers, t.holder.addr)
		u.front.engine.account.leaveHolder(t.holder)
	}
}

// mostMoved is how many sessions at the most end for a new one: a client or Service whose share has become less since it
// took its own shrinks to it.
const mostMoved = 2

// makeRoom takes what a session of a client needs, and ends others where there is too little. False: there is still none.
func (u *udpSocket) makeRoom(t *talker) bool {
	for moved := 0; ; moved++ {
		err, full := error(nil), u.full(t)
		if !full {
			if err = u.front.engine.account.takeSession(t.holder, int(u.n.Load())-1); err == nil {
				return true
			}
			u.front.engine.opts.Trouble(err)
		}
		s := u.expendable(t)
		if s == nil || moved == mostMoved {
			return false
		}
		s.end(Proxy, Timeout, OutcomeLimit)
	}
}

// live is how many sessions there are.
func (u *udpSocket) live() int64 { return u.n.Load() }

// yield makes room for sessions of other Services.
func (u *udpSocket) yield() {
	u.l.do(func() {
		for range mostMoved {
			if s := u.expendable(nil); s != nil {
				s.end(Proxy, Timeout, OutcomeLimit)
			}
		}
	})
}

// full tells whether one session more of a client, which is counted already, is too many for this socket. The client has
// its share of what the socket may have, as Services have of the Account.
func (u *udpSocket) full(t *talker) bool {
	rest := u.front.engine.opts.UDPSessions - int(u.n.Load())
	return rest < 0 || t.n > share*(rest+1)
}

// greedy is which part of a socket's sessions makes a client one of those that the others have too little for.
const greedy = 16

// expendable is the session that makes room for a client's next, nil if there is none: its own where it has many, else the
// least useful of all, as for anybody else's.
func (u *udpSocket) expendable(t *talker) *session {
	if t != nil && (t.n-1)*greedy >= int(u.n.Load()) {
		if s := t.byUse.expendable(u.l.now); s != nil {
			return s
		}
	}
	return u.byUse.expendable(u.l.now)
}

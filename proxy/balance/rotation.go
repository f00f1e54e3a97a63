package balance

import (
	"net/netip"
	"slices"
	"time"
)

// member is an endpoint in a rotation. One that left and came back is a new member: what was bound to it stays
// forgotten. There may be a million, so the fields are packed.
type member struct {
	addr  netip.Addr
	port  uint16
	state memberState
	bound int32 // bindings that point here
}

// memberState is a set of what may be true of a member.
type memberState uint8

const (
	listed  memberState = 1 << iota // in the Endpoint's lists: from its first pick on
	gone                            // no longer in the rotation
	bad                             // ejected
	leftOut                         // and left out
)

func (m *member) is(s memberState) bool { return m.state&s != 0 }

func (m *member) set(s memberState, on bool) {
	if m.state &^= s; on {
		m.state |= s
	}
}

func (m *member) addrPort() netip.AddrPort { return netip.AddrPortFrom(m.addr, m.port) }

// rotation has the endpoints from which a Balancer chooses, and whose turn it is. port.mu guards it.
type rotation struct {
	port      *port           // the Balancer's
	start     func(n int) int // Options.Start
	members   []*member       // sorted by address
	active    []*member       // those that are not left out
	leftOut   []*member       // ejected ones that are
	next      int             // index in active of the member whose turn it is
	marked    bool            // some member is bad
	probeAt   time.Time       // when one that is left out may be due
	table     table           // of the members; nil: it is not made yet
	slowStart slowStart
}

func addresses(members []*member) []netip.AddrPort {
	addrs := make([]netip.AddrPort, len(members))
	for i, m := range members {
		addrs[i] = m.addrPort()
	}
	return addrs
}

// equals tells whether the members are the endpoints of a sorted list.
func (r *rotation) equals(addrs []netip.AddrPort) bool {
	return slices.EqualFunc(r.members, addrs, func(m *member, a netip.AddrPort) bool { return m.addrPort() == a })
}

// has tells whether an endpoint is a member.
func (r *rotation) has(at netip.AddrPort) bool {
	_, is := search(r.members, at)
	return is
}

// replace sets the members by a sorted list of addresses, and calls leaves with each that is gone.
func (r *rotation) replace(addrs []netip.AddrPort, leaves func(*member)) {
	old := r.members
	r.members, r.table = merge(old, addrs), nil
	r.reactivate()
	r.slowStart.begin(old, r.members)
	for _, m := range old {
		if m.is(gone) {
			leaves(m)
		}
	}
}

// merge returns members of these addresses, old ones where they stay, and marks the other old ones gone.
func merge(old []*member, addrs []netip.AddrPort) []*member {
	for _, e := range old {
		e.set(gone, true)
	}
	members := make([]*member, len(addrs))
	for i, addr := range addrs {
		if at, ok := search(old, addr); ok {
			members[i] = old[at]
			members[i].set(gone, false)
		} else {
			members[i] = &member{addr: addr.Addr(), port: addr.Port()}
		}
	}
	return members
}

// resume returns whose turn it is among those that take part now; next is that among the old ones.
func (r *rotation) resume(old []*member, next int) int {
	for i := range old {
		if e := old[(next+i)%len(old)]; !e.is(gone | leftOut) {
			at, _ := search(r.active, e.addrPort())
			return at
		}
	}
	if len(r.active) == 0 {
		return 0
	}
	return r.start(len(r.active))
}

func search(members []*member, addr netip.AddrPort) (int, bool) {
	return slices.BinarySearchFunc(members, addr, func(e *member, a netip.AddrPort) int { return e.addrPort().Compare(a) })
}

// reactivate chooses which members take part: all but the ejected ones, of which no more than half is left out. If all
// are ejected all take part. The turn goes on where it was among those that took part so far.
func (r *rotation) reactivate() {
	before := r.active
	for _, m := range r.leftOut {
		m.set(leftOut, false)
	}
	r.active, r.leftOut = r.members, nil
	if len(r.port.ejected) > 0 || r.marked {
		r.leaveOut()
	}
	r.next = r.resume(before, r.next)
}

func (r *rotation) leaveOut() {
	var ejected []*member
	for _, m := range r.members {
		m.set(bad, r.port.ejected[m.addrPort()] != nil)
		if m.is(bad) {
			ejected = append(ejected, m)
		}
	}
	r.marked = len(ejected) > 0
	if len(ejected) == len(r.members) {
		return
	}
	r.leftOut = ejected[:min(len(ejected), len(r.members)/2)]
	if len(r.leftOut) == 0 {
		return
	}
	r.active = make([]*member, 0, len(r.members)-len(r.leftOut))
	for _, m := range r.leftOut {
		m.set(leftOut, true)
	}
	for _, m := range r.members {
		if !m.is(leftOut) {
			r.active = append(r.active, m)
		}
	}
	r.probeAt = time.Time{} // the next is searched for below
}

// probe returns a member that is left out and whose time is up, nil if there is none: the connection that asks is to
// try it again.
func (r *rotation) probe(tried []netip.AddrPort) *member {
	if len(r.leftOut) == 0 || len(tried) > 0 {
		return nil
	}
	now := time.Now()
	if now.Before(r.probeAt) {
		return nil
	}
	r.probeAt = now.Add(lastBan)
	var due *member
	for _, m := range r.leftOut {
		h := &r.port.ejected[m.addrPort()].health
		if due == nil && !now.Before(h.until) {
			due = m
			h.until, h.probed = now.Add(probeEvery), true
		}
		if h.until.Before(r.probeAt) {
			r.probeAt = h.until
		}
	}
	return due
}

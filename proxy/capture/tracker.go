package capture

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/portald/portald/platform/packets"
	"github.com/portald/portald/proxy/record"
)

// tracker decides what becomes of packets: it knows connections by what it is told of them, and holds the packets of
// those that it was not told of yet. One goroutine uses it.
type tracker struct {
	plan       *plan
	proxyPorts map[uint16]bool                     // local ports to which portals redirect
	frontend   func(at netip.AddrPort) *Connection // of a frontend: a connection of which nothing else is known
	out        func(c *conn, s Side, f *frame)     // passes a packet on
	changed    func(c *conn)                       // passes on that more is known of a connection
	held       *heldFrames
	bindings   map[packets.Flow]binding
	byID       map[uint64]*conn
	byFront    map[packets.Flow]*conn // of those without an id
	unwanted   int64
	untracked  int64
}

// conn is a connection that the tracker was told of.
type conn struct {
	Connection
	number  uint32 // in the stream; 0: it was not announced
	changed bool   // since it was announced
	wanted  bool
	began   time.Time // it was told of
	ended   time.Time // zero: it is open
	bound   []packets.Flow
}

// binding says whose packets those of a flow are.
type binding struct {
	conn *conn
	side Side
}

// What is not told of for so long will not be told of. A dial that is not answered is told of when it has failed.
const (
	unknownFor  = 30 * time.Second // packets of no known connection are held
	dialFor     = 2 * time.Second  // packets of a client whose endpoint is dialled are held
	refusedFor  = 2 * time.Second  // the same, to a frontend: rules refuse or drop them
	rememberFor = 30 * time.Second // connections are remembered after their end: its last packets come later
	maxConns    = 200_000
)

func newTracker(p *plan, room int, out func(*conn, Side, *frame), changed func(*conn)) *tracker {
	return &tracker{plan: p, out: out, changed: changed, held: newHeldFrames(room), bindings: map[packets.Flow]binding{},
		byID: map[uint64]*conn{}, byFront: map[packets.Flow]*conn{}, proxyPorts: map[uint16]bool{},
		frontend: func(netip.AddrPort) *Connection { return nil }}
}

// key is a flow in either direction. A local port that portals redirect to is one, at whichever address.
func (t *tracker) key(f packets.Flow) packets.Flow {
	for _, at := range []*netip.AddrPort{&f.From, &f.To} {
		*at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
		if t.proxyPorts[at.Port()] {
			*at = netip.AddrPortFrom(netip.Addr{}, at.Port())
		}
	}
	if f.From.Compare(f.To) > 0 {
		return f.Reverse()
	}
	return f
}

// packet takes a packet. What it holds of it is a copy.
func (t *tracker) packet(p *packets.Frame) {
	h, ok := p.Headers()
	if !ok {
		t.unwanted++
		return
	}
	f := &frame{Frame: *p, flow: t.key(h.Flow), begin: h.Begin}
	if !t.plan.Payload {
		f.Data = f.Data[:h.End]
	}
	b, known := t.bindings[f.flow]
	if known && h.Begin && !b.conn.ended.IsZero() { // another connection with the same ports
		delete(t.bindings, f.flow)
		known = false
	}
	if !known {
		t.held.add(f)
		return
	}
	t.decide(b, []*frame{f}, t.held.add)
}

// decide passes packets of a connection on, drops them, or has them held.
func (t *tracker) decide(b binding, frames []*frame, hold func(*frame)) {
	c := b.conn
	switch {
	case t.holds(c, time.Now()):
		for _, f := range frames {
			hold(f)
		}
	case !c.wanted, len(t.plan.Outcomes) > 0 && !t.plan.wantsOutcome(c.Outcome):
		t.unwanted += int64(len(frames))
	default:
		for _, f := range frames {
			t.out(c, b.side, f)
		}
	}
}

// learn takes what is known of a connection now. Ended: it has the outcome.
func (t *tracker) learn(with *Connection, ended bool, proxies ...dialled) {
	front := t.key(packets.Flow{Protocol: protocolOf(with.Protocol), From: with.Client, To: with.Frontend})
	c := t.find(with, front)
	if c == nil {
		return
	}
	c.merge(with)
	if ended {
		c.ended = time.Now()
		c.Outcome = with.Outcome
	}
	c.wanted = slices.ContainsFunc(t.plan.targets, func(t Target) bool { return t.is(&c.Connection) })
	t.bind(c, front, ClientSide)
	for port := range t.proxyPorts {
		local := packets.Flow{Protocol: front.Protocol, From: with.Client, To: netip.AddrPortFrom(netip.Addr{}, port)}
		t.bind(c, t.key(local), ClientSide)
	}
	for _, d := range append(proxies, dialled{with.Proxy, with.Endpoint}) {
		if d.proxy.IsValid() && d.endpoint.IsValid() {
			back := t.key(packets.Flow{Protocol: front.Protocol, From: d.proxy, To: d.endpoint})
			if back != front {
				t.bind(c, back, EndpointSide)
			}
		}
	}
	t.settle(c)
	if c.changed && c.number != 0 {
		t.changed(c)
	}
}

// dialled is a dial: from where to where.
type dialled struct{ proxy, endpoint netip.AddrPort }

// find returns the connection that is meant, which may be a new one; nil: there are too many.
func (t *tracker) find(with *Connection, front packets.Flow) *conn {
	if c := t.byID[with.ID]; c != nil && with.ID != 0 {
		return c
	}
	c := t.byFront[front]
	if c != nil && with.ID == 0 {
		return c
	}
	if c == nil && len(t.byID)+len(t.byFront) >= maxConns {
		t.untracked++
		return nil
	}
	if c == nil || !c.ended.IsZero() {
		c = &conn{began: time.Now()}
	}
	if with.ID == 0 {
		t.byFront[front] = c
		return c
	}
	delete(t.byFront, front) // it has an id by now
	t.byID[with.ID] = c
	return c
}

// merge sets what is known.
func (c *conn) merge(with *Connection) {
	before := c.Connection
	c.Outcome = cmp.Or(with.Outcome, c.Outcome)
	c.ID = cmp.Or(with.ID, c.ID)
	c.Service, c.Protocol, c.Client, c.Frontend = with.Service, with.Protocol, with.Client, with.Frontend
	c.CarriedBy = cmp.Or(with.CarriedBy, c.CarriedBy)
	c.ClientPod = cmp.Or(with.ClientPod, c.ClientPod)
	if with.Endpoint.IsValid() {
		c.Proxy, c.Endpoint, c.Pod, c.Node = with.Proxy, with.Endpoint, with.Pod, with.Node
	}
	c.changed = c.changed || before != c.Connection
}

func (t *tracker) bind(c *conn, flow packets.Flow, side Side) {
	if t.bindings[flow].conn == c {
		return
	}
	t.bindings[flow] = binding{c, side}
	c.bound = append(c.bound, flow)
}

// settle decides again about the packets that are held of a connection, in the order of time.
func (t *tracker) settle(c *conn) {
	type held struct {
		binding
		*frame
	}
	var all []held
	for _, flow := range c.bound {
		if b := t.bindings[flow]; b.conn == c && !t.holds(c, time.Now()) {
			for _, f := range t.held.take(flow) {
				all = append(all, held{b, f})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b held) int { return cmp.Compare(a.Time, b.Time) })
	for _, h := range all {
		t.decide(h.binding, []*frame{h.frame}, t.held.add)
	}
}

// holds tells whether packets of a connection are still to be held: until it is known how it ends, or which endpoint it
// has. Who is not interested in one endpoint alone does not wait long for that.
func (t *tracker) holds(c *conn, now time.Time) bool {
	dials := c.CarriedBy == string(record.Userspace) && !c.Endpoint.IsValid()
	switch {
	case !c.ended.IsZero():
		return false
	case dials && (!c.wanted || now.Sub(c.began) < dialFor):
		return true
	}
	return c.wanted && len(t.plan.Outcomes) > 0
}

// waiting tells whether packets are held of which no connection is known.
func (t *tracker) waiting() bool {
	for flow := range t.held.flows {
		if _, known := t.bindings[flow]; !known {
			return true
		}
	}
	return false
}

// expire gives up on what was not told of for too long; over: on everything.
func (t *tracker) expire(now time.Time, over bool) {
	for flow, h := range t.held.flows {
		if b, known := t.bindings[flow]; known {
			if !t.holds(b.conn, now) {
				t.settle(b.conn)
			}
			continue
		}
		if c := t.refused(flow); c != nil && (over || now.Sub(time.Unix(0, h.begin())) > refusedFor) {
			for _, f := range t.held.take(flow) {
				t.out(c, ClientSide, f)
			}
		} else if over || now.Sub(time.Unix(0, h.last())) > unknownFor {
			t.unwanted += int64(len(t.held.take(flow)))
		}
	}
	for id, c := range t.byID {
		if t.forget(c, now) {
			delete(t.byID, id)
		}
	}
	for front, c := range t.byFront {
		if t.forget(c, now) {
			delete(t.byFront, front)
		}
	}
}

// forget drops what is bound to a connection that ended long ago.
func (t *tracker) forget(c *conn, now time.Time) bool {
	if c.ended.IsZero() || now.Sub(c.ended) < rememberFor {
		return false
	}
	for _, flow := range c.bound {
		if t.bindings[flow].conn == c {
			delete(t.bindings, flow)
		}
	}
	return true
}

// refused returns a connection for packets between a client and a frontend that nobody carries, nil if they are not, or
// not wanted.
func (t *tracker) refused(flow packets.Flow) *conn {
	if len(t.plan.Outcomes) > 0 {
		return nil
	}
	for _, f := range []packets.Flow{flow, flow.Reverse()} {
		known := t.frontend(f.To)
		if known == nil || known.Protocol != f.Protocol.String() {
			continue
		}
		c := &conn{Connection: *known, wanted: true, changed: true}
		c.Client, c.Frontend = f.From, f.To
		if slices.ContainsFunc(t.plan.targets, func(t Target) bool { return t.is(&c.Connection) }) {
			return c
		}
	}
	return nil
}

package splice

import (
	"context"
	"slices"
	"sync"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/record"
)

// Departure is a connection or session that its engine no longer carries, with its sockets, which are the engine's
// still: a successor gets duplicates. One of Resume and Leave ends it.
type Departure struct {
	Conn    *SavedConn    // or nil
	Session *SavedSession // or nil
	Files   []int
	Stays   bool // set by Give: it cannot be passed on, though others can

	// Given is called by Give just before a successor may go on with it, unless it is nil: what a keeper knows of it here
	// is not true any more.
	Given func()

	resume, leave, stay func()
}

// Resume has the engine go on with it: it stays here.
func (d *Departure) Resume() { d.resume() }

// Leave closes its sockets here: a successor goes on with it.
func (d *Departure) Leave() { d.leave() }

// departing is how many connections stand still together while they are handed over.
const departing = 64

// Give passes some connections or sessions to a successor, and returns when that has them, but for those that Stay.
// With an error it has the first so many, and the others stay.
type Give func([]*Departure) (taken int, err error)

// Moving passes on what a Core carries to a successor, or to a keeper, and goes on with what a predecessor carried.
type Moving struct{ *Core }

// Moving passes on what a Core carries.
func (c *Core) Moving() Moving { return Moving{c} }

// HandOver takes the established TCP connections from the engine, some at a time, and passes them to give. Those that
// are not established yet stay, and after an error all that were not taken. It returns how many connections are left
// that may still be handed over.
func (c Moving) HandOver(ctx context.Context, give Give) (left int64, err error) {
	return c.handOver(ctx, give, false)
}

// HandOverWaiting does the same with those that wait for an endpoint: here they would wait in vain.
func (c Moving) HandOverWaiting(ctx context.Context, give Give) (left int64, err error) {
	return c.handOver(ctx, give, true)
}

func (c Moving) handOver(ctx context.Context, give Give, waiting bool) (left int64, err error) {
	conns := slices.DeleteFunc(c.openConns(), func(conn *Conn) bool {
		state, _ := conn.life.entry.stage.load()
		return (state == record.StateWaiting) != waiting || conn.stays.Load()
	})
	for some := range slices.Chunk(conns, departing) {
		if err := passOn(c.detach(some, waiting), give); err != nil {
			return c.movable(), err
		}
		if ctx.Err() != nil {
			return c.movable(), context.Cause(ctx)
		}
	}
	c.settle()
	return c.movable(), nil
}

// movable is how many connections are open, but for those that stay, and those that have ended and are delivered.
func (c Moving) movable() (n int64) {
	for _, conn := range c.openConns() {
		if state, _ := conn.life.entry.stage.load(); state != record.StateDelivering && !conn.stays.Load() {
			n++
		}
	}
	return n
}

// Remain forgets which connections could not be passed on: the hand-over has failed, and there may be another.
func (c Moving) Remain() {
	for _, conn := range c.openConns() {
		conn.stays.Store(false)
	}
}

func passOn(some []*Departure, give Give) error {
	if len(some) == 0 {
		return nil
	}
	taken, err := give(some)
	for i, d := range some {
		switch {
		case d.Stays:
			d.stay()
			d.Resume()
		case i < taken:
			d.Leave()
		default:
			d.Resume()
		}
	}
	return err
}

func (c Moving) openConns() (all []*Conn) {
	for _, m := range c.open() {
		if conn, ok := m.(connMember); ok {
			all = append(all, conn.Conn)
		}
	}
	return all
}

// detach has the engine stop carrying these, and returns those with which it did and that wait, or do not.
func (c Moving) detach(conns []*Conn, waiting bool) (all []*Departure) {
	answers := make(chan *Departure, len(conns))
	for _, conn := range conns {
		conn.owner.Detach(func(d *Departure) { answers <- d })
	}
	for range conns {
		switch d := <-answers; {
		case d == nil:
		case d.Conn.Waits == waiting:
			all = append(all, d)
		default: // it has found an endpoint just now, or lost it
			d.Resume()
		}
	}
	return all
}

// settle returns when the engine has done what it was told before.
func (c Moving) settle() {
	if m, ok := c.engine.(Mover); ok {
		var wg sync.WaitGroup
		m.Settle(&wg)
		wg.Wait()
	}
}

// Passage is a connection that a predecessor passes on, or a successor takes.
type Passage struct{ *Conn }

// Passage hands a connection over.
func (c *Conn) Passage() Passage { return Passage{c} }

// AwaitsEndpoint tells whether the connection waits for an endpoint, and does not dial.
func (c Passage) AwaitsEndpoint() bool { return c.waiting && c.life.queue.waits() }

// Departs makes the Departure of a connection that is established, or AwaitsEndpoint, which its owner has stopped
// carrying. The
// rest of what is saved is the engine's: it sets that, and what Resume, Leave and Given call.
func (c Passage) Departs(resume, leave, given func(), files ...int) *Departure {
	stay := func() { c.stays.Store(true) }
	return &Departure{Conn: c.Saves(), Files: files, resume: resume, leave: leave, stay: stay, Given: given}
}

// Saves returns the state of the connection, without the engine's part. It is called by the owner.
func (c Passage) Saves() *SavedConn {
	s := &SavedConn{
		SavedLife: c.life.save(), ClientEOF: c.clientEOF, EndpointEOF: c.endpointEOF, Replays: c.replays,
	}
	if c.goneAt > 0 {
		s.Removed = &SavedRemoval{At: c.goneAt, Do: c.life.entry.plan.policy.Removed}
	}
	if c.replay.between() {
		s.Sent = c.replay.kept.sent
	}
	return s
}

// Left gives back what the connection took, without a report: a successor has it. It is called once, in place of
// Closed.
func (c Passage) Left() {
	c.life.queue.leave(&c.life.entry, c.life.entry.front.core.Now())
	c.life.dial.current.lease.ended(c.life.entry.clientAddr(), nil, -1)
	c.giveBack()
	c.life.admission.uncount(&c.life.entry)
	c.life.entry.front.core.counts.conns.Add(-1)
}

// FileAt is the descriptor of the socket at an address, which stays the engine's. False: no front listens there, or the
// engine passes on no sockets.
func (c Moving) FileAt(at service.Frontend) (file int, is bool) {
	f, listens := c.listening.Load(at)
	if !listens {
		return 0, false
	}
	file, is = f.(*Front).Files()[at.Addr]
	return file, is
}

// giveBack gives back what was taken for the connection.
func (c Passage) giveBack() {
	c.replay.Forget()
	c.open().payload().drop()
	c.life.entry.front.core.Registry.remove(connMember(c))
	if c.kept.Load() {
		c.quota.Give(quota.Kept, 1)
	}
	c.quota.GiveConnection()
	c.quota.Leave()
}

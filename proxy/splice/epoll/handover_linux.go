package epoll

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/pipe"
)

// Settle implements splice.Mover.
func (e *engine) Settle(wg interface {
	Add(int)
	Done()
}) {
	for _, l := range e.loops {
		wg.Add(1)
		if !l.do(wg.Done) {
			wg.Done()
		}
	}
}

// Detach implements splice.Owner.
func (c *conn) Detach(tell func(*splice.Departure)) {
	l := c.at.Load()
	queued := l.do(func() {
		if c.at.Load() != l || c.l != l { // as in Post
			c.Detach(tell)
			return
		}
		tell(c.detach())
	})
	if !queued {
		tell(nil)
	}
}

// detach takes an established connection from its loop, or one that waits for an endpoint. Nothing is read and not
// accounted for between two events, and while others look at it nothing touches its sockets.
func (c *conn) detach() *splice.Departure {
	switch {
	case c.stage == dialing && c.Holds():
		return c.detachWaiting()
	case c.stage != relaying:
		return nil
	}
	c.stage = departed
	c.unguard() // the successor may not know of it
	c.unwatch(&c.client)
	c.unwatch(&c.endpoint)
	c.l.timers.stop(&c.timer)
	files := []int{c.client.fd, c.endpoint.fd}
	for _, f := range []*flow{&c.up, &c.down} {
		if f.inPipe > 0 {
			r, w := f.pipe.Files()
			files = append(files, r, w)
		}
	}
	d := c.Departs(func() { c.l.do(c.reattach) }, func() { c.l.do(c.leave) }, func() { c.noteGiven(true) }, files...)
	now := c.l.clock()
	d.Conn.Up, d.Conn.Down = c.up.save(), c.down.save()
	d.Conn.ToClient, d.Conn.ToEndpoint = c.client.save(now), c.endpoint.save(now)
	d.Conn.Relays = c.relays
	return d
}

func (c *conn) detachWaiting() *splice.Departure {
	c.stage = departed
	c.unguard()
	c.unwatch(&c.client)
	c.l.timers.stop(&c.timer)
	resume := func() {
		c.stage = dialing
		c.guard()
		c.perform(c.WaitOn(c.l.clock()))
		c.postLater()
	}
	d := c.Departs(func() { c.l.do(resume) }, func() { c.l.do(c.leave) }, nil, c.client.fd)
	d.Conn.Up.Carried = c.up.carried
	return d
}

// reattach goes on with a connection that no successor has taken, or that has stood still since it was restored.
func (c *conn) reattach() {
	c.attach()
	c.relay()
	c.postLater()
}

// attach has the loop carry it again.
func (c *conn) attach() {
	c.noteGiven(false)
	c.stage, c.migrating = relaying, false
	if c.up.mem == nil {
		c.guard()
	}
	c.setTimer(c.Until(c.l.clock()))
	c.watchBoth()
}

func (c *conn) postLater() {
	if c.seldom == nil {
		return
	}
	posted := c.seldom.posted
	c.seldom.posted = nil
	for _, next := range posted {
		c.Post(next)
	}
}

// leave closes the sockets of a connection that a successor has.
func (c *conn) leave() {
	c.stage = closed
	if c.relays == longLivedAfter {
		c.l.load.Add(-1)
	}
	c.up.drop(c.l)
	c.down.drop(c.l)
	c.shut(&c.client, sysClose)
	c.shut(&c.endpoint, sysClose)
	c.unkeep()
	c.Left()
}

// Restore implements splice.Mover.
func (e *engine) Restore(f *splice.Front, s *splice.SavedConn, files []int) {
	e.restore(f, s, files, false)
}

// Stand implements splice.Mover.
func (e *engine) Stand(f *splice.Front, s *splice.SavedConn, files []int) splice.Standing {
	c := e.restore(f, s, files, true)
	keep := c.keepStanding
	if s.Broken != nil { // it ends as soon as its rest is delivered, and is reset if this process dies before
		keep = func(tell func(*splice.Kept)) { tell(nil) }
	}
	return splice.Standing{Conn: &c.Conn, Keep: keep, GoOn: func() { c.stopStanding(s.Broken) }}
}

func (e *engine) restore(f *splice.Front, s *splice.SavedConn, files []int, stands bool) *conn {
	l := e.loops[int(e.next.Add(1))%len(e.loops)]
	c := &conn{l: l, stage: relaying, relays: s.Relays}
	c.at.Store(l)
	c.timer.owner = c
	if s.Waits {
		c.stage, c.client.fd, c.endpoint.fd = dialing, files[0], -1
		c.up.carried = s.Up.Carried
		c.RestoreWaiting(f, c, s)
		l.do(func() {
			c.guard()
			if !c.Ended() { // it may have been cut since it is known
				c.perform(c.Redial(l.clock()))
			}
		})
		return c
	}
	c.client.fd, c.endpoint.fd, c.endpoint.tag = files[0], files[1], tagDial
	c.client.restore(s.ToClient, l.clock())
	c.endpoint.restore(s.ToEndpoint, l.clock())
	next := c.Conn.Restore(f, c, s)
	l.do(func() {
		if c.Ended() { // it was cut since it is known
			for _, fd := range files[2:] {
				sysClose(fd)
			}
			return
		}
		files = c.up.restore(l, s.Up, files[2:])
		c.down.restore(l, s.Down, files)
		c.publish()
		c.guard()
		if c.relays == longLivedAfter {
			l.load.Add(1)
		}
		if stands {
			c.stage = departed
			return
		}
		c.setTimer(next.Until)
		c.watchBoth()
		c.relay()
	})
	return c
}

// keepStanding is Keep of a splice.Standing, which is as one that is about to depart, until it does not.
func (c *conn) keepStanding(tell func(*splice.Kept)) {
	queued := c.l.do(func() {
		if c.stage == departed {
			tell(c.noted())
		} else {
			tell(nil)
		}
	})
	if !queued {
		tell(nil)
	}
}

// stopStanding is GoOn of a splice.Standing.
func (c *conn) stopStanding(broken *splice.SavedBreak) {
	c.l.do(func() {
		switch {
		case c.stage != departed:
		case broken == nil:
			c.reattach()
		default:
			c.attach()
			c.broken(broken.Side, broken.Errno)
			c.postLater()
		}
	})
}

func (s *socket) restore(from splice.SavedSocket, now time.Duration) {
	s.urgent = from.Urgent
	s.blocked.Restore(from.Blocked, from.Full, now)
}

// save returns what the flow has carried and what it holds, which stays where it is.
func (f *flow) save() splice.SavedFlow {
	return splice.SavedFlow{
		Carried: f.carried, Passed: f.passed, FIN: f.fin, EOF: f.eof, Large: f.large, Small: f.small,
		Rest: f.rest, Urgent: f.flags&unix.MSG_OOB != 0, InPipe: f.inPipe,
	}
}

// restore goes on with what a predecessor's flow has carried and held. It returns the files that belong to others.
func (f *flow) restore(l *loop, s splice.SavedFlow, files []int) []int {
	f.carried, f.passed, f.fin, f.eof, f.large, f.small = s.Carried, s.Passed, s.FIN, s.EOF, s.Large, s.Small
	if len(s.Rest) > 0 {
		f.borrow(l)
		f.rest = f.buf[:copy(f.buf[:], s.Rest)]
	}
	if s.Urgent {
		f.flags = unix.MSG_OOB
	}
	if s.InPipe > 0 {
		f.pipe, f.inPipe = pipe.Adopt(l.engine.account, files[0], files[1]), s.InPipe
		l.engine.pipeOpened(f.pipe)
		files = files[2:]
	}
	return files
}

func (s *socket) save(now time.Duration) splice.SavedSocket {
	return splice.SavedSocket{Urgent: s.urgent, Full: s.blocked.Blocked(), Blocked: s.blocked.Until(now)}
}

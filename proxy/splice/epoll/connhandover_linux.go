package epoll

import (
	"time"

	"github.com/portald/portald/proxy/splice"
)

// standing is a connection that stands still: a successor is about to have it, or it was restored from a predecessor
// and does not go on yet.
type standing struct {
	c      *conn
	posted []func(now time.Duration) splice.Step // functions to call if it goes on here
}

// depart takes an established connection from its loop, or one that waits for an endpoint; nil: it is neither. Nothing
// is read and not accounted for between two events, and while others look at it nothing touches its sockets.
func depart(c *conn) *splice.Departure {
	waits := c.stage == dialing && c.Passage().AwaitsEndpoint()
	if !waits && c.stage != relaying {
		return nil
	}
	l, r := c.l, &c.relay
	d := &standing{c: c}
	c.stage, c.standing = departed, d
	r.unguard() // the successor may not know of it
	r.unwatch(&l.poller)
	l.timers.stop(&c.timer)
	if waits {
		to := c.Passage().Departs(func() { l.do(d.resumeWaiting) }, func() { l.do(d.leave) }, nil, r.client.fd)
		to.Conn.Up.Carried = r.up.carried
		return to
	}
	given := func() { r.noteGiven(true) }
	to := c.Passage().Departs(func() { l.do(d.resume) }, func() { l.do(d.leave) }, given, r.files()...)
	if !r.endpoint.probing {
		r.endpoint.keepAlive(splice.DefaultKeepalive()) // the successor may not know that it does not yet
	}
	r.save(to.Conn, l.clock())
	to.Conn.Relays = c.relays
	return to
}

// resumeWaiting has one wait on that no successor has taken.
func (d *standing) resumeWaiting() {
	c := d.c
	c.stage = dialing
	c.relay.guard()
	c.perform(c.Passage().WaitOn(c.l.clock()))
	d.postLater()
}

// resume goes on with one that no successor has taken, or that has stood still since it was restored.
func (d *standing) resume() {
	d.attach()
	d.c.carry()
	d.postLater()
}

// attach has the loop carry it again.
func (d *standing) attach() {
	c := d.c
	c.relay.noteGiven(false)
	c.stage, c.migrating = relaying, false
	if !c.relay.kept() {
		c.relay.guard()
	}
	c.setTimer(c.Until(c.l.clock()))
	c.watch()
}

// postLater does what has come in the meantime.
func (d *standing) postLater() {
	posted := d.posted
	d.posted = nil
	for _, next := range posted {
		owner{d.c}.Post(next)
	}
}

// leave closes the sockets of a connection that a successor has.
func (d *standing) leave() {
	c, l := d.c, d.c.l
	c.stage = closed
	l.uncount(c)
	c.relay.leave(&l.stock)
	c.relay.unkeep(l.keeping)
	c.Passage().Left()
}

// restore goes on with a connection of a predecessor, unless it is to stand still.
func (l *loop) restore(f *splice.Front, s *splice.SavedConn, files []int, stands bool) *conn {
	c := &conn{l: l, stage: relaying, relays: s.Relays}
	c.at.Store(l)
	c.timer.owner = c
	r := &c.relay
	if s.Waits {
		c.stage, r.client.fd, r.endpoint.fd = dialing, files[0], -1
		r.up.carried = s.Up.Carried
		c.Passage().RestoreWaiting(f, owner{c}, s)
		l.do(func() {
			r.guard()
			if !c.Ended() { // it may have been cut since it is known
				c.perform(c.Passage().Redial(l.clock()))
			}
		})
		return c
	}
	r.restoreSockets(s, files[0], files[1], l.clock())
	if stands {
		c.standing = &standing{c: c}
	}
	next := c.Passage().Restore(f, owner{c}, s)
	l.do(func() {
		if c.Ended() { // it was cut since it is known
			for _, fd := range files[2:] {
				sysClose(fd)
			}
			return
		}
		r.restoreFlows(&l.stock, s, files[2:])
		r.publish(c.Traffic())
		r.guard()
		if c.relays == longLivedAfter {
			l.load.Add(1)
		}
		if stands {
			c.stage = departed
			return
		}
		c.setTimer(next.Until)
		c.watch()
		c.carry()
	})
	return c
}

// keep is Keep of a splice.Standing: it is kept as one that is about to depart, until it does not.
func (d *standing) keep(tell func(*splice.Kept)) {
	queued := d.c.l.do(func() {
		if d.c.stage == departed {
			tell(owner{d.c}.keep())
		} else {
			tell(nil)
		}
	})
	if !queued {
		tell(nil)
	}
}

// release is Resume of a splice.Standing.
func (d *standing) release(broken *splice.SavedBreak) {
	d.c.l.do(func() {
		switch {
		case d.c.stage != departed:
		case broken == nil:
			d.resume()
		default:
			d.attach()
			d.c.broken(broken.Side, broken.Errno)
			d.postLater()
		}
	})
}

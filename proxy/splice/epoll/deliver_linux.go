package epoll

import (
	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// delivery is what is left of a connection that has ended: see splice.Step.Deliver. The kernel drops what a socket has
// not sent when it is reset, and tells nobody when a peer has acknowledged all: it is asked now and then.
type delivery struct {
	splice.Delivery
	up, down remains
}

// remains is what is left of one flow.
type remains struct {
	wanted bool  // else it is read and discarded, so that a peer goes on that sends before it reads
	until  int64 // how far it is read
	ended  bool  // the source's FIN came behind that, before its reset
	fin    bool  // the destination has one
}

// deliver begins to bring streams to their peers. ended: the stream of the side that has failed had ended before.
func (c *conn) deliver(streams splice.Streams, ended bool) {
	c.stage, c.migrating = delivering, false
	c.rare().delivery = &delivery{
		Delivery: c.Delivers(c.l.clock()),
		up:       c.up.remains(c.l, streams&splice.FromClient != 0, &c.client, ended),
		down:     c.down.remains(c.l, streams&splice.FromEndpoint != 0, &c.endpoint, ended),
	}
	c.goOn()
}

func (f *flow) remains(l *loop, wanted bool, src *socket, ended bool) remains {
	src.readable = true
	f.replay = nil
	if !wanted {
		f.drop(l)
		return remains{}
	}
	r := remains{wanted: true, until: f.carried, ended: (ended || f.fin) && !f.eof, fin: f.eof}
	if !f.eof {
		r.until += int64(sysUnread(src.fd))
	}
	return r
}

// goOn delivers as far as the peers take it, and closes the connection once they have all, take nothing any more, or
// are gone.
func (c *conn) goOn() {
	d := c.seldom.delivery
	asked, answered := c.up.carried, c.down.carried
	up := d.up.move(c.l, &c.up, &c.client, &c.endpoint)
	down := d.down.move(c.l, &c.down, &c.endpoint, &c.client)
	if answered == 0 && c.down.carried > 0 {
		c.FirstByte(c.l.clock())
	}
	if c.up.carried != asked || c.down.carried != answered {
		c.Moved(c.l.clock(), c.up.carried != asked)
	}
	c.publish()
	toEndpoint, toClient := d.up.unacknowledged(&c.endpoint), d.down.unacknowledged(&c.client)
	switch {
	case up == destinationFailed || down == destinationFailed,
		d.up.over(up) && d.down.over(down) && toEndpoint+toClient == 0:
		c.close(true)
		return
	case up == more || down == more:
		c.queue()
	}
	next, goesOn := d.Look(c.up.passed-toEndpoint+c.down.passed-toClient, c.l.clock())
	if !goesOn {
		c.up.passed -= toEndpoint
		c.down.passed -= toClient
		c.close(true)
		return
	}
	c.setTimer(next)
}

// over tells whether nothing is left of the flow here.
func (r *remains) over(p progress) bool { return !r.wanted || p == atEOF }

// unacknowledged is how many bytes of a flow are in the send queue of its destination.
func (r *remains) unacknowledged(dst *socket) int64 {
	if !r.wanted {
		return 0
	}
	return int64(sysUnacknowledged(dst.fd))
}

// move carries what is left, and returns atEOF once the destination's socket has all of it.
func (r *remains) move(l *loop, f *flow, src, dst *socket) progress {
	switch {
	case !r.wanted:
		return f.discard(l, src)
	case dst.failed:
		return destinationFailed
	case f.carried < r.until:
		p, _ := f.carry(l, src, dst)
		switch {
		case p == destinationFailed:
			return p
		case p == more || p == spliced:
			return more
		case p == sourceFailed || p == atEOF || !src.readable: // it had fewer than it told
			r.until = f.carried
		}
	case f.holds() && dst.writable:
		if f.flush(l, dst) != 0 {
			return destinationFailed
		}
	}
	if f.holds() || f.carried < r.until {
		return blocked
	}
	if r.ended {
		r.ended, r.fin = false, true
		dst.end()
	}
	return atEOF
}

// discard reads what nobody is left for.
func (f *flow) discard(l *loop, src *socket) progress {
	for most := f.carried + quantum; src.readable; {
		if f.carried >= most {
			return more
		}
		n, e := sysDiscard(src.fd, l.scratch[:])
		switch {
		case e != 0 && e != unix.EAGAIN:
			return destinationFailed // it is that of the other flow
		case n == 0:
			src.readable = false
		}
		f.carried += int64(n)
	}
	return blocked
}

package epoll

import (
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// keepForReplay tells whoever may send it again of a load. Urgent bytes are sent once.
func (f *flow) keepForReplay(load []byte, urgent bool) {
	switch {
	case urgent:
		f.replay.ForgetReplay()
		f.replay = nil
	case !f.replay.ClientSent(load):
		f.replay = nil
	}
}

// copies tells whether a load is to be copied though a pipe, or the receive buffer, would do: it may be sent again.
func (f *flow) copies(l *loop) bool {
	switch {
	case l.engine.account.Buffers.Exhausted():
		f.replay.ForgetReplay()
		fallthrough
	case !f.replay.Replayable():
		f.replay = nil
		return false
	}
	return true
}

// beginAgain is the start of begin for a connection that may go to another endpoint, or is at another one. False: that
// one has failed as well.
func (c *conn) beginAgain(s splice.Step) bool {
	c.up.replay = &c.Conn
	if s.Again == nil {
		return true
	}
	if n, e := sysSend(c.endpoint.fd, s.Header); n < len(s.Header) { // a new socket takes it
		c.broken(record.Endpoint, e)
		return false
	}
	c.up.borrow(c.l)
	c.up.rest, c.up.passed = c.up.buf[:copy(c.up.buf[:], s.Again)], 0
	return true
}

// drop leaves the endpoint, as splice.Step.Drop tells. Its events of this round are not about the next one.
func (c *conn) drop() {
	c.endpoint.unguard()
	c.shut(&c.endpoint, sysClose)
	c.l.ignoreDials(c)
	c.l.timers.stop(&c.timer)
	c.up.drop(c.l)
	c.up.eof, c.up.large, c.up.small = false, 0, 0
	c.down = flow{}
	c.stage, c.until, c.migrating = dialing, 0, false
	c.endpoint = socket{fd: -1}
}

// ignoreDials drops the events of sockets to endpoints that were received and not handled yet, also of one that was
// overtaken: the next dial has the tag of either.
func (l *loop) ignoreDials(c *conn) {
	for i := range l.batch {
		if e := &l.batch[i]; e.tag >= tagDial && e.h == handler(c) {
			e.h = nobody{}
		}
	}
}

// nobody handles events of what is gone.
type nobody struct{}

func (nobody) ready(uint32, uint8) {}

// answered notes a first byte of the endpoint that has come before the endpoint broke the connection, and was not read
// yet: then another endpoint is not to answer too.
func (c *conn) answered(side record.Side) {
	if side != record.Endpoint || !c.Replayable() {
		return
	}
	var b [1]byte
	if n, e := sysPeek(c.endpoint.fd, b[:]); e == 0 && n > 0 {
		c.FirstByte(c.l.clock())
	}
}

// keepable tells whether somebody may keep the connection, which then stays with its endpoint. What the client has sent
// is worth more to it than that.
func (c *conn) keepable() bool {
	if c.KeepsBytes() {
		return false
	}
	c.ForgetReplay()
	return true
}

package epoll

import "github.com/portald/portald/proxy/splice"

// delivery brings to the peers the rest of a connection that has ended: see splice.Step.Deliver. The kernel drops the
// bytes that a socket has not sent when it is reset, and tells nobody when a peer has acknowledged all: the queue of
// the socket is read now and then.
type delivery struct {
	splice.Delivery
	up, down remains
}

// newDelivery begins to bring streams to their peers. ended: the stream of the side that has failed had ended before.
func newDelivery(c *conn, streams splice.Streams, ended bool) *delivery {
	s, r := &c.l.stock, &c.relay
	return &delivery{
		Delivery: splice.BeginDelivery(&c.Conn, c.l.clock()),
		up:       remainsOf(&r.up, s, streams&splice.FromClient != 0, &r.client, ended),
		down:     remainsOf(&r.down, s, streams&splice.FromEndpoint != 0, &r.endpoint, ended),
	}
}

// deliver delivers as far as the peers take it, and closes the connection once they have all, take nothing any more, or
// are gone.
func (c *conn) deliver() {
	d, s, r := c.delivery, &c.l.stock, &c.relay
	sent, replied := r.up.carried, r.down.carried
	up := d.up.move(s, &r.up, &r.client, &r.endpoint)
	down := d.down.move(s, &r.down, &r.endpoint, &r.client)
	if replied == 0 && r.down.carried > 0 {
		c.FirstByte(c.l.clock())
	}
	c.moved(c.l.clock(), sent, replied)
	toEndpoint, toClient := d.up.unacknowledged(&r.endpoint), d.down.unacknowledged(&r.client)
	switch {
	case up == destinationFailed || down == destinationFailed,
		d.up.over(up) && d.down.over(down) && toEndpoint+toClient == 0:
		c.close(true)
		return
	case up == more || down == more:
		c.queue()
	}
	next, goesOn := d.Look(r.up.passed-toEndpoint+r.down.passed-toClient, c.l.clock())
	if !goesOn {
		r.up.passed -= toEndpoint
		r.down.passed -= toClient
		c.close(true)
		return
	}
	c.setTimer(next)
}

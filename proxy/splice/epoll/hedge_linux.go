package epoll

import (
	"time"

	"github.com/portald/portald/proxy/splice"
)

// secondDial is a dial beside that of conn.endpoint.
type secondDial struct {
	socket
	until time.Duration // when it times out
}

// The dials of a connection, by their places: conn.endpoint and conn.second.
const (
	firstOne splice.Dial = iota
	secondOne
)

// dials tells whether any dial is under way.
func (c *conn) dials() bool { return c.until != 0 || c.second != nil }

// place is where a dial has its socket and its timeout.
func (c *conn) place(d splice.Dial) (*socket, *time.Duration) {
	if d == firstOne {
		return &c.endpoint, &c.until
	}
	if c.second == nil {
		c.second = &secondDial{}
	}
	return &c.second.socket, &c.second.until
}

// hangUp closes the socket of a dial that has failed, if there is one.
func (c *conn) hangUp(d splice.Dial) {
	s, until := c.place(d)
	c.shut(s, sysClose)
	if *until = 0; d == secondOne {
		c.second = nil
	}
}

// become makes s the socket that another was, to which nothing was written yet.
func (s *socket) become(o *socket) {
	s.fd, s.id, s.watched, s.forOut, s.tag = o.fd, o.id, o.watched, o.forOut, o.tag
	s.readable, s.writable, s.hup, s.failed, s.urgent = o.readable, o.writable, o.hup, o.failed, o.urgent
}

// connected ends a dial whose endpoint is reached. A dial that it has overtaken is given up.
func (c *conn) connected(d splice.Dial) splice.Step {
	if second := c.second; second != nil {
		c.second = nil
		if d == firstOne {
			c.shut(&second.socket, sysClose)
		} else {
			c.shut(&c.endpoint, sysClose)
			c.endpoint.become(&second.socket)
		}
	}
	return c.Connected(d, c.l.clock())
}

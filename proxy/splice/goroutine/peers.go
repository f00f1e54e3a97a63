package goroutine

import (
	"net"
	"time"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// keepalive is set on both sockets.
func keepalive() net.KeepAliveConfig { return keepaliveConfig(splice.DefaultKeepalive()) }

func keepaliveConfig(k splice.Keepalive) net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: k.Idle, Interval: k.Interval, Count: k.Count}
}

// SetKeepalive implements splice.Sockets. mu is held.
func (c *conn) SetKeepalive(of record.Side, k splice.Keepalive) {
	_ = c.socketOf(of).SetKeepAliveConfig(keepaliveConfig(k)) // fails if it is broken: its direction says so
}

// InFlight implements splice.Sockets. mu is held.
func (c *conn) InFlight() (is bool) {
	if c.copying.Load() > 0 || len(c.steps) > 0 || len(c.early) > 0 { // bytes that are not counted yet
		return true
	}
	if ask := c.e.host.Queues; ask != nil {
		for _, socket := range []*net.TCPConn{c.client, c.endpoint} {
			control(socket, func(fd uintptr) {
				unread, unacknowledged := ask(fd)
				is = is || unread+unacknowledged > 0
			})
		}
	}
	return is
}

// Unanswered implements splice.Sockets. mu is held.
func (c *conn) Unanswered(of record.Side, silence time.Duration) (is bool) {
	if ask := c.e.host.Unanswered; ask != nil && c.endpoint != nil {
		control(c.socketOf(of), func(fd uintptr) { is = ask(fd, silence) })
	}
	return is
}

func (c *conn) socketOf(side record.Side) *net.TCPConn {
	if side == record.Client {
		return c.client
	}
	return c.endpoint
}

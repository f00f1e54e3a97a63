package epoll

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// SetKeepalive implements splice.Sockets.
func (c *conn) SetKeepalive(of record.Side, k splice.Keepalive) {
	fd := c.socketOf(of).fd
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int32(k.Interval/time.Second))
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, int32(k.Count))
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int32(k.Idle/time.Second)) // the last one: it sets the timer anew
}

// InFlight implements splice.Sockets.
func (c *conn) InFlight() bool {
	for _, s := range []*socket{&c.client, &c.endpoint} {
		if unread, unacknowledged := Queues(uintptr(s.fd)); unread+unacknowledged > 0 {
			return true
		}
	}
	return c.queued
}

// Unanswered implements splice.Sockets.
func (c *conn) Unanswered(of record.Side, silence time.Duration) bool {
	return c.stage == relaying && Unanswered(uintptr(c.socketOf(of).fd), silence)
}

func (c *conn) socketOf(side record.Side) *socket {
	if side == record.Client {
		return &c.client
	}
	return &c.endpoint
}

func (c *conn) flowFrom(side record.Side) *flow {
	if side == record.Client {
		return &c.up
	}
	return &c.down
}

// Queues is how many bytes of a TCP socket were not read, and how many its peer did not acknowledge.
func Queues(fd uintptr) (unread, unacknowledged int) {
	return sysUnread(int(fd)), sysUnacknowledged(int(fd))
}

// unansweredSegments is how many segments in a row without an answer are no accident: the second is sent some 600 ms
// after the first, the third some 1.4 s.
const unansweredSegments = 2

// Unanswered tells whether a TCP socket sends bytes, or probes of its peer's closed window, again and again, and
// nothing came from its peer for so long. A peer that does not read answers probes nevertheless.
func Unanswered(fd uintptr, silence time.Duration) bool {
	i, ok := tcpInfoOf(int(fd))
	if !ok || uint64(min(i.Last_ack_recv, i.Last_data_recv)) < uint64(silence.Milliseconds()) {
		return false
	}
	return i.Unacked > 0 && i.Retransmits >= unansweredSegments || i.Probes >= unansweredSegments
}

package epoll

import "golang.org/x/sys/unix"

// counts are the kernel's own of a stream that a process has read and written: each is exact up to a constant.
type counts struct {
	received, sent int64 // bytes of payload, that were read of the socket, and written to it
	closed         bool  // both ways, or reset: then both count a FIN too
	finSent        bool
	inOrder        bool // closed, and not reset: the FINs are not counted any more
}

// The states of TCP that count here: include/net/tcp_states.h.
const (
	tcpFinWait1 = 4 + iota
	tcpFinWait2
	tcpTimeWait
	tcpClose
	tcpCloseWait
	tcpLastAck
	_
	tcpClosing
)

// countsOf asks until nothing has arrived between the questions.
func countsOf(fd int) (c counts, known bool) {
	for range 100 {
		before, ok := tcpInfoOf(fd)
		unread, e1 := unix.IoctlGetInt(fd, unix.SIOCINQ)
		unacked, e2 := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
		after, also := tcpInfoOf(fd)
		if !ok || !also || e1 != nil || e2 != nil {
			return c, false
		}
		if before.Bytes_received != after.Bytes_received || before.Bytes_acked != after.Bytes_acked ||
			before.State != after.State {
			continue
		}
		c = counts{
			received: int64(after.Bytes_received) - int64(unread), sent: int64(after.Bytes_acked) + int64(unacked),
			closed: after.State == tcpClose,
		}
		switch after.State { // a FIN counts as a byte
		case tcpCloseWait, tcpLastAck, tcpClosing, tcpTimeWait:
			c.received--
		}
		switch after.State {
		case tcpFinWait1, tcpFinWait2, tcpClosing, tcpLastAck, tcpTimeWait:
			c.sent--
			c.finSent = true
		}
		return c, true
	}
	return c, false
}

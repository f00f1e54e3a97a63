package goroutine

import (
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/record"
)

// Host has the operating system's functions beyond package net. One that is nil is not available.
type Host struct {
	// Listening sets options of a socket that clients connect or write to, before it is bound.
	Listening func(fd uintptr, protocol inet.Protocol) error
	// Dialling sets options of a socket to an endpoint, before it is connected, and marks what it sends unless mark is 0.
	Dialling func(fd uintptr, protocol inet.Protocol, mark uint32) error
	// BindTransparent binds such a socket to the client's address, which is not this host's.
	BindTransparent func(fd uintptr, client netip.Addr) error
	// Refusals has a connected UDP socket report that the endpoint's port is closed, where package net turned that off.
	Refusals func(fd uintptr)
	// Interface is the index of the interface that an accepted connection came in by, 0 when it is not known.
	Interface func(fd uintptr, family inet.Family) int
	// TCPInfo reads what the kernel tells of a TCP socket.
	TCPInfo func(fd uintptr) record.TCPInfo
	// Queues counts the bytes of a TCP socket that were not read, and the bytes that its peer did not acknowledge.
	Queues func(fd uintptr) (unread, unacknowledged int)
	// Unresponsive tells whether a TCP socket retransmits bytes that were not acknowledged, and nothing came from its
	// peer for so long.
	Unresponsive func(fd uintptr, silence time.Duration) bool
	// Receive reads from a TCP socket without blocking. urgent: the one byte read is the urgent one of its sender;
	// drained: nothing is left to be read, and syscall.RawConn.Read waits for what comes next; or, of 0 bytes, the
	// connection is no more.
	Receive func(fd uintptr, buf []byte) (n int, urgent, drained bool, err error)
	// Awaits tells that syscall.RawConn.Read waits for bytes by a read of none, as on Windows, if there is no Receive: a
	// connection that is idle has no buffer then.
	Awaits bool
	// Error returns and clears the pending error of a TCP socket (SO_ERROR). Without it, a reset by a peer that has
	// already sent FIN is noticed only when bytes are sent to that peer.
	Error func(fd uintptr) error
	// Send writes to a TCP socket without blocking, the last byte as its urgent one if it is to be. It comes with Receive.
	Send func(fd uintptr, b []byte, urgent bool) (n int, err error)
}

// tcpInfo reads TCP_INFO of a socket; nil: there is none.
func (h *Host) tcpInfo(socket *net.TCPConn) (info record.TCPInfo) {
	if h.TCPInfo != nil && socket != nil {
		control(socket, func(fd uintptr) { info = h.TCPInfo(fd) })
	}
	return info
}

// pendingError takes the error of a socket, if there is one and the host tells.
func (h *Host) pendingError(of *net.TCPConn) (pending error) {
	if h.Error != nil {
		control(of, func(fd uintptr) { pending = h.Error(fd) })
	}
	return pending
}

// queues returns how many bytes of a socket were not read, and how many not acknowledged: 0 where that is not known.
func (h *Host) queues(socket *net.TCPConn) (unread, unacknowledged int) {
	if h.Queues != nil {
		control(socket, func(fd uintptr) { unread, unacknowledged = h.Queues(fd) })
	}
	return unread, unacknowledged
}

// control calls call with the descriptor of a socket.
func control(c syscall.Conn, call func(fd uintptr)) {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(call) // fails if the socket was closed: the result is not needed then
	}
}

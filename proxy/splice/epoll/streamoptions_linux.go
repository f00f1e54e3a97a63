package epoll

import "golang.org/x/sys/unix"

// Keepalive of both sides, in seconds: a peer that is gone is noticed within some three minutes.
const (
	keepIdle     = 60
	keepInterval = 15
)

// streamOptions are the options of both sockets of a connection.
func streamOptions(fd int) {
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	sysSetInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1) // an urgent byte stays in the stream
	sysSetInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepIdle)
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepInterval)
}

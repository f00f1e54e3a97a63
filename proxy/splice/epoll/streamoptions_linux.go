package epoll

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice"
)

// keepaliveAfter is how old a connection to an endpoint is when its keepalive begins. Most end before: the calls are a
// fiftieth of the cost of a connection with one request.
const keepaliveAfter = time.Second

// streamOptions are the options of both sockets of a connection from its begin.
func streamOptions(fd int) {
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	sysSetInt(fd, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1) // an urgent byte stays in the stream
}

// setKeepalive has the kernel probe an idle peer.
func setKeepalive(fd int, k splice.Keepalive) {
	sysSetInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int32(k.Interval/time.Second))
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, int32(k.Count))
	sysSetInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int32(k.Idle/time.Second)) // the last one: it sets the timer
}

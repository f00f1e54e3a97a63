package platform

import (
	"net"

	"golang.org/x/sys/unix"
)

// PeerUser returns the user that the process at the other end of a Unix socket has run as when it connected, or began
// to listen.
func PeerUser(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if failed != nil {
		return 0, failed
	}
	if err != nil {
		return 0, err
	}
	return int(peer.Uid), nil
}

package platform

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// CheckPeer refuses a connection of a Unix socket, with an ErrPeer, whose other end is a process of another user than
// this one, root excepted. The kernel says which user it ran as when it connected, or began to listen.
func CheckPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return err
	case peer.Uid != 0 && int(peer.Uid) != os.Geteuid():
		return fmt.Errorf("%w: uid %d", ErrPeer, peer.Uid)
	}
	return nil
}

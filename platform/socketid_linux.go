package platform

import "golang.org/x/sys/unix"

// SocketID is a number that the kernel gives to a socket, the same in all processes that have it open, and to no other
// one later (SO_COOKIE of socket(7)); 0: it cannot be told.
func SocketID(fd int) uint64 {
	id, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		return 0
	}
	return id
}

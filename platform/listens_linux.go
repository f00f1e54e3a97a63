package platform

import "golang.org/x/sys/unix"

// Listens tells whether a socket takes what comes to its address: one of TCP that was shut down never does so again.
func Listens(fd int) bool {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_STREAM {
		return err == nil
	}
	is, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	return err == nil && is != 0
}

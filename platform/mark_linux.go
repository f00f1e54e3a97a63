package platform

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// MayMark tells whether this process may mark what its sockets send, and if not, why: it takes the capability NET_ADMIN, or
// from Linux 5.17 on NET_RAW.
func MayMark(mark uint32) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket to mark: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(mark)); err != nil {
		return fmt.Errorf("mark what a socket sends: %w", err)
	}
	return nil
}

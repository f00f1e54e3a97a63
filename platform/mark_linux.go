package platform

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// MayMark returns an error if this process may not set SO_MARK, which takes CAP_NET_ADMIN, or CAP_NET_RAW from Linux
// 5.17 on.
func MayMark(mark uint32) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer unix.Close(fd)
	return Mark(uintptr(fd), mark)
}

// Mark marks what a socket sends.
func Mark(fd uintptr, mark uint32) error {
	if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(mark)); err != nil {
		return fmt.Errorf("set SO_MARK: %w", err)
	}
	return nil
}

package platform

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
)

// ListenOptions has a TCP socket, and those that it accepts, keep urgent bytes at their place in the stream.
func ListenOptions(fd uintptr, protocol inet.Protocol) error {
	if protocol != inet.TCP {
		return nil
	}
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_OOBINLINE, 1)
}

// DialOptions does the same for a socket that is to be connected, and marks what it sends unless mark is 0: that needs
// CAP_NET_ADMIN.
func DialOptions(fd uintptr, protocol inet.Protocol, mark uint32) error {
	if err := ListenOptions(fd, protocol); err != nil || mark == 0 {
		return err
	}
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(mark))
}

// BindTransparent binds a socket that is to be connected to an address that is not this host's, at a port that the
// kernel chooses when it connects. Needs CAP_NET_ADMIN or CAP_NET_RAW.
func BindTransparent(fd uintptr, addr netip.Addr) error {
	level, option := unix.IPPROTO_IP, unix.IP_TRANSPARENT
	var to unix.Sockaddr = &unix.SockaddrInet4{Addr: as4(addr)}
	if inet.FamilyOf(addr) == inet.IPv6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT
		to = &unix.SockaddrInet6{Addr: addr.As16()}
	}
	if err := unix.SetsockoptInt(int(fd), level, option, 1); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
		return err
	}
	return unix.Bind(int(fd), to)
}

func as4(addr netip.Addr) [4]byte {
	if addr.Is4() {
		return addr.As4()
	}
	return [4]byte{}
}

// Receive reads from a TCP socket without blocking. The urgent byte of a sender is read by itself: urgent. drained: all
// that there was has been read, and whatever comes next is an event of its own. 0 bytes without an error are the end of
// the stream; drained then: the connection is no more, by a reset, or closed both ways.
func Receive(fd uintptr, buf []byte) (n int, urgent, drained bool, err error) {
	ready := events(fd)
	if ready == 0 {
		return 0, false, true, unix.EAGAIN
	}
	if ready&unix.POLLPRI != 0 && atMark(fd) {
		buf, urgent = buf[:1], true
	}
	n, err = transfer(unix.SYS_RECVFROM, fd, buf, unix.MSG_DONTWAIT)
	if n == 0 && err == nil {
		return 0, false, ready&unix.POLLHUP != 0, nil
	}
	return n, urgent && n == 1, ready == unix.POLLIN && n < len(buf), err
}

// events returns what a TCP socket is ready for: bytes, an urgent one among them, the end of the stream, an error.
func events(fd uintptr) int16 {
	p := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN | unix.POLLPRI | unix.POLLRDHUP}
	var now unix.Timespec
	_, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	if errno != 0 {
		return unix.POLLERR // the read says what there is
	}
	return p.Revents
}

// Send writes to a TCP socket without blocking, the last byte as urgent if it is to be.
func Send(fd uintptr, b []byte, urgent bool) (n int, err error) {
	flags := unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
	if urgent {
		flags |= unix.MSG_OOB
	}
	return transfer(unix.SYS_SENDTO, fd, b, flags)
}

// atMark tells whether the next byte to be read is an urgent one.
func atMark(fd uintptr) bool {
	var at int32
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, fd, unix.SIOCATMARK, uintptr(unsafe.Pointer(&at)))
	return errno == 0 && at != 0
}

// transfer receives or sends. The scheduler is not told, since the call returns at once: in a process that is idle
// between two messages it would start its monitor thread for each of them.
func transfer(call, fd uintptr, b []byte, flags int) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			uintptr(flags), 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// PendingError takes the pending error of a socket, nil if there is none.
func PendingError(fd uintptr) error {
	errno, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil || errno == 0 {
		return err
	}
	return unix.Errno(errno)
}

package epoll

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// receiveBuffer is that of a UDP socket which many clients share, or whose endpoint sends in bulk, in bytes: it holds
// what comes while a loop has other work. The kernel takes memory for what waits alone, within net.ipv4.udp_mem.
const receiveBuffer = 1 << 20

// setReceiveBuffer sets the receive buffer of a socket, beyond net.core.rmem_max if this process may.
func setReceiveBuffer(fd int) {
	if sysSetInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != 0 {
		sysSetInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
}

// drops follows the kernel's count of datagrams that a socket had no room for.
type drops struct{ seen uint32 }

// more returns how many there are since it was asked last.
func (d *drops) more(fd int) (n uint32) {
	const at = 8 // SK_MEMINFO_DROPS
	var all [at + 1]uint32
	size := uint32(unsafe.Sizeof(all))
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return 0
	}
	n, d.seen = all[at]-d.seen, all[at] // it wraps
	return n
}

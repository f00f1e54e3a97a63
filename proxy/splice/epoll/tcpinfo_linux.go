package epoll

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/record"
)

// TCPInfo is what the kernel tells of a TCP socket.
func TCPInfo(fd uintptr) record.TCPInfo {
	var i unix.TCPInfo // what an older kernel does not know stays 0
	size := uint32(unsafe.Sizeof(i))
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, fd, unix.IPPROTO_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(&i)), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return record.TCPInfo{}
	}
	return record.TCPInfo{
		Known: true, RTT: micros(i.Rtt), RTTVar: micros(i.Rttvar),
		ReceiverLimited: micros(i.Rwnd_limited), SenderLimited: micros(i.Sndbuf_limited), Busy: micros(i.Busy_time),
		Retransmits: i.Total_retrans, Lost: i.Lost, DeliveryRate: i.Delivery_rate,
	}
}

func micros[T uint32 | uint64](n T) time.Duration { return time.Duration(n) * time.Microsecond }

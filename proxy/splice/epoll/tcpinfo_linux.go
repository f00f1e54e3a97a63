package epoll

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/record"
)

// TCPInfo reads from the kernel what a record shows of a TCP socket.
func TCPInfo(fd uintptr) record.TCPInfo {
	i, ok := tcpInfoOf(int(fd))
	if !ok {
		return record.TCPInfo{}
	}
	return record.TCPInfo{
		Known: true, RTT: micros(i.Rtt), RTTVar: micros(i.Rttvar),
		ReceiverLimited: micros(i.Rwnd_limited), SenderLimited: micros(i.Sndbuf_limited), Busy: micros(i.Busy_time),
		Retransmits: i.Total_retrans, Lost: i.Lost, OutOfOrder: i.Rcv_ooopack, DeliveryRate: i.Delivery_rate,
		PathMTU: i.Pmtu, MSS: i.Snd_mss, SegmentsSent: i.Data_segs_out, RetransmitBytes: i.Bytes_retrans,
		Timeouts: i.Retransmits, RTO: micros(i.Rto), LargestReceived: i.Rcv_mss,
		MissingInBetween: missing(int(fd), &i), SinceHeard: time.Duration(i.Last_ack_recv) * time.Millisecond,
	}
}

// missing tells whether segments wait behind others that did not come: they take memory, and cannot be read. It costs
// system calls only where some came out of order.
func missing(fd int, i *unix.TCPInfo) bool {
	if i.Rcv_ooopack == 0 || sysUnread(fd) > 0 {
		return false
	}
	var memory [unix.SK_MEMINFO_VARS]uint32
	size := uint32(unsafe.Sizeof(memory))
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&memory)), uintptr(unsafe.Pointer(&size)), 0)
	return e == 0 && memory[unix.SK_MEMINFO_RMEM_ALLOC] > 0
}

func micros[T uint32 | uint64](n T) time.Duration { return time.Duration(n) * time.Microsecond }

// tcpInfoOf reads TCP_INFO. Fields that an older kernel does not know stay 0.
func tcpInfoOf(fd int) (i unix.TCPInfo, ok bool) {
	size := uint32(unsafe.Sizeof(i))
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(&i)), uintptr(unsafe.Pointer(&size)), 0)
	return i, e == 0
}

// Queues counts the bytes of a TCP socket that were not read, and the bytes that its peer did not acknowledge.
func Queues(fd uintptr) (unread, unacknowledged int) {
	return sysUnread(int(fd)), sysUnacknowledged(int(fd))
}

// unackedSegments is how many retransmissions in a row without an acknowledgement are no accident: the second is sent
// some 600 ms after the first, the third some 1.4 s.
const unackedSegments = 2

// Unresponsive tells whether a TCP socket sends bytes, or probes of its peer's closed window, again and again, and
// nothing came from its peer for so long. A peer that does not read answers probes nevertheless.
func Unresponsive(fd uintptr, silence time.Duration) bool {
	i, ok := tcpInfoOf(int(fd))
	if !ok || uint64(min(i.Last_ack_recv, i.Last_data_recv)) < uint64(silence.Milliseconds()) {
		return false
	}
	return i.Unacked > 0 && i.Retransmits >= unackedSegments || i.Probes >= unackedSegments
}

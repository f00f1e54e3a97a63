package epoll

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
)

// The calls of the data path. Those on non-blocking descriptors go by RawSyscall: they return at once, so the scheduler
// need not know of them, and telling it costs more than many of them do. The runtime's own signals may interrupt them.

func sysRecv(fd int, b []byte) (int, syscall.Errno) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
			unix.MSG_DONTWAIT, 0, 0)
		if e != unix.EINTR {
			return int(n), e
		}
	}
}

// sysPeek reads without taking anything out of the receive buffer.
func sysPeek(fd int, b []byte) (int, syscall.Errno) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
			unix.MSG_DONTWAIT|unix.MSG_PEEK, 0, 0)
		if e != unix.EINTR {
			return int(n), e
		}
	}
}

// sysDiscard drops up to len(b) bytes of the receive buffer. The contents of b have no meaning.
func sysDiscard(fd int, b []byte) (int, syscall.Errno) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
			unix.MSG_DONTWAIT|unix.MSG_TRUNC, 0, 0)
		switch e {
		case 0:
			return int(n), 0
		case unix.EINTR:
		default:
			return 0, e
		}
	}
}

func sysSend(fd int, b []byte) (int, syscall.Errno) { return sysSendAs(fd, b, 0) }

// sysSendAs sends with further flags.
func sysSendAs(fd int, b []byte, flags uintptr) (int, syscall.Errno) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
			uintptr(len(b)), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT|flags, 0, 0)
		if e != unix.EINTR {
			return int(n), e
		}
	}
}

// sysUnread counts the bytes in the receive queue of a TCP socket, without a FIN behind them.
func sysUnread(fd int) int { return sysQueue(fd, unix.SIOCINQ) }

// sysUnacknowledged counts the bytes that the peer of a TCP socket did not acknowledge yet, with a FIN behind them.
func sysUnacknowledged(fd int) int { return sysQueue(fd, unix.SIOCOUTQ) }

func sysQueue(fd int, which uint) int {
	n, err := unix.IoctlGetInt(fd, which)
	if err != nil {
		return 0 // it is no TCP socket
	}
	return n
}

// sysAtMark tells whether the next byte to be read is an urgent one.
func sysAtMark(fd int) bool {
	var at int32
	_, _, e := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCATMARK, uintptr(unsafe.Pointer(&at)))
	return e == 0 && at != 0
}

func sysAccept(fd int, sa *sockaddr) (int, syscall.Errno) {
	sa.size = unix.SizeofSockaddrInet6
	n, _, e := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&sa.raw)),
		uintptr(unsafe.Pointer(&sa.size)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	return int(n), e
}

func sysSocket(family, kind int) (int, syscall.Errno) {
	kind |= unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	n, _, e := syscall.RawSyscall(unix.SYS_SOCKET, uintptr(family), uintptr(kind), 0)
	return int(n), e
}

func sysConnect(fd int, sa *sockaddr) syscall.Errno {
	_, _, e := syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&sa.raw)), uintptr(sa.size))
	return e
}

func sysSetInt(fd, level, name int, value int32) syscall.Errno {
	_, _, e := syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(&value)), unsafe.Sizeof(value), 0)
	return e
}

func sysShutdownWrite(fd int) syscall.Errno {
	_, _, e := syscall.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), unix.SHUT_WR, 0)
	return e
}

func sysClose(fd int) {
	syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) //nolint:errcheck // nothing can be done about it
}

// sysReset closes a TCP socket so that its peer sees a reset.
func sysReset(fd int) {
	sysCloseByReset(fd, 1)
	sysClose(fd)
}

// sysCloseByReset sets whether the close of a TCP socket is a reset, which drops its send queue, also the close by the
// death of the last process that has it: 1 or 0.
func sysCloseByReset(fd int, is int32) {
	linger := unix.Linger{Onoff: is}
	syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_LINGER,
		uintptr(unsafe.Pointer(&linger)), unsafe.Sizeof(linger), 0) //nolint:errcheck // then it is an ordinary close
}

// sysFinish closes a socket that others have too: its peer sees a FIN nevertheless.
func sysFinish(fd int) {
	syscall.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), unix.SHUT_RDWR, 0) //nolint:errcheck // it may be closed already
	sysClose(fd)
}

// sysAbort closes a TCP socket that others have too, so that its peer sees a reset.
func sysAbort(fd int) {
	var unspecified unix.RawSockaddr // AF_UNSPEC disconnects
	syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&unspecified)),
		unsafe.Sizeof(unspecified)) //nolint:errcheck // it may be closed already
	sysClose(fd)
}

// sysError takes the pending error of a socket.
func sysError(fd int) syscall.Errno {
	value, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return unix.EBADF
	}
	return syscall.Errno(value)
}

func sysEpollCtl(ep, op, fd int, ev *unix.EpollEvent) syscall.Errno {
	_, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(ep), uintptr(op), uintptr(fd),
		uintptr(unsafe.Pointer(ev)), 0, 0)
	return e
}

// sysEpollWait waits for up to ms milliseconds (-1: for ever). The scheduler knows: after some 20 µs it gives the P to
// another goroutine. Not all architectures have epoll_wait; without a mask of signals epoll_pwait is the same.
func sysEpollWait(ep int, events []unix.EpollEvent, ms int) (int, syscall.Errno) {
	n, _, e := syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(ep), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(ms), 0, 0)
	return int(n), e
}

// sysEpollPoll is sysEpollWait without telling the scheduler.
func sysEpollPoll(ep int, events []unix.EpollEvent, ms int) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(ep), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(ms), 0, 0)
	return int(n), e
}

func sysYield() { syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) } //nolint:errcheck // it cannot fail

func sysRecvmmsg(fd int, msgs []mmsghdr) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&msgs[0])),
		uintptr(len(msgs)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), e
}

func sysSendmmsg(fd int, msgs []mmsghdr) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&msgs[0])),
		uintptr(len(msgs)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), e
}

func sysSendmsg(fd int, msg *unix.Msghdr) syscall.Errno {
	for {
		_, _, e := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(msg)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if e != unix.EINTR {
			return e
		}
	}
}

// mmsghdr is the kernel's struct mmsghdr.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   [4]byte
}

// sockaddr is a kernel socket address of either family.
type sockaddr struct {
	raw  unix.RawSockaddrInet6 // the larger of the two
	size uint32
}

func (s *sockaddr) set(a netip.AddrPort) {
	port := a.Port()<<8 | a.Port()>>8
	if a.Addr().Is4() {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.raw))
		*v4 = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port, Addr: a.Addr().As4()}
		s.size = unix.SizeofSockaddrInet4
		return
	}
	s.raw = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: port, Addr: a.Addr().As16()}
	s.size = unix.SizeofSockaddrInet6
}

// addr is the address, an IPv4-mapped one as IPv4.
func (s *sockaddr) addr() netip.AddrPort {
	port := s.raw.Port<<8 | s.raw.Port>>8
	if s.raw.Family == unix.AF_INET {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.raw))
		return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16(s.raw.Addr).Unmap(), port)
}

func family(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// pktinfo control messages: which local address a datagram was sent to, and which one a reply is to leave from.

const (
	pktinfo4Space = unix.SizeofCmsghdr + (unix.SizeofInet4Pktinfo+7)&^7
	pktinfo6Space = unix.SizeofCmsghdr + unix.SizeofInet6Pktinfo + 4
)

// putPktinfo writes the address that a reply is to leave from. A link-local one, to which a portal leads if the
// interface of the client has no other, is an address only together with the interface.
func putPktinfo(b []byte, local netip.Addr, iface uint32) int {
	hdr := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	data := b[unix.SizeofCmsghdr:]
	if local.Is4() {
		hdr.Level, hdr.Type, hdr.Len = unix.IPPROTO_IP, unix.IP_PKTINFO, unix.SizeofCmsghdr+unix.SizeofInet4Pktinfo
		clear(data[:unix.SizeofInet4Pktinfo])
		*(*[4]byte)(data[4:]) = local.As4() // ipi_spec_dst
		return pktinfo4Space
	}
	hdr.Level, hdr.Type, hdr.Len = unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, unix.SizeofCmsghdr+unix.SizeofInet6Pktinfo
	*(*[16]byte)(data) = local.As16()
	if !local.IsLinkLocalUnicast() {
		iface = 0
	}
	binary.NativeEndian.PutUint32(data[16:], iface)
	return pktinfo6Space
}

// nextControl splits off the first of some control messages.
func nextControl(b []byte) (first, rest []byte) {
	if len(b) < unix.SizeofCmsghdr {
		return nil, nil
	}
	size := int((*unix.Cmsghdr)(unsafe.Pointer(&b[0])).Len)
	if size < unix.SizeofCmsghdr || size > len(b) {
		return nil, nil
	}
	return b[:size], b[min(len(b), (size+7)&^7):]
}

// pktinfo reads the local address, and the index of the interface that it came in by.
func pktinfo(b []byte) (local netip.Addr, iface uint32) {
	if len(b) < unix.SizeofCmsghdr {
		return netip.Addr{}, 0
	}
	hdr := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	data := b[unix.SizeofCmsghdr:]
	switch {
	case hdr.Level == unix.IPPROTO_IP && hdr.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
		return netip.AddrFrom4(*(*[4]byte)(data[8:12])), binary.NativeEndian.Uint32(data) // ipi_addr, ipi_ifindex
	case hdr.Level == unix.IPPROTO_IPV6 && hdr.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
		return netip.AddrFrom16(*(*[16]byte)(data[:16])).Unmap(), binary.NativeEndian.Uint32(data[16:])
	}
	return netip.Addr{}, 0
}

func sysBind(fd int, sa *sockaddr) syscall.Errno {
	_, _, e := syscall.RawSyscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&sa.raw)), uintptr(sa.size))
	return e
}

// localAddr is the address a socket is bound to, the zero AddrPort when there is none.
func localAddr(fd int) netip.AddrPort {
	sa := sockaddr{size: unix.SizeofSockaddrInet6}
	_, _, e := syscall.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&sa.raw)),
		uintptr(unsafe.Pointer(&sa.size)))
	if e != 0 {
		return netip.AddrPort{}
	}
	return sa.addr()
}

// Interface is the index of the interface that an accepted connection came in by, 0 when the kernel does not say. The
// kernel notes it for replies of multicast senders, which a connection has no use for.
func Interface(fd uintptr, family inet.Family) int {
	if family == inet.IPv6 {
		index, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF)
		if err != nil {
			return 0
		}
		return index
	}
	if sysSetInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1) != 0 {
		return 0
	}
	var b [pktinfo4Space]byte
	size := uint32(len(b))
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, fd, unix.IPPROTO_IP, unix.IP_PKTOPTIONS,
		uintptr(unsafe.Pointer(&b)), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return 0
	}
	_, index := pktinfo(b[:size])
	return int(index)
}

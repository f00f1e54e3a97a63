package platform

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
)

// OriginalDst returns the original destination of a TCP connection, before REDIRECT or DNAT. An error means that the
// kernel knows of no translation. It costs one system call.
func OriginalDst(fd int, family inet.Family) (netip.AddrPort, error) {
	level, name := unix.SOL_IP, unix.SO_ORIGINAL_DST
	if family == inet.IPv6 {
		level, name = unix.SOL_IPV6, ip6tSoOriginalDst
	}
	var raw unix.RawSockaddrInet6 // the larger of the two
	size := uint32(unix.SizeofSockaddrInet6)
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(&raw)), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return netip.AddrPort{}, e
	}
	port := raw.Port<<8 | raw.Port>>8
	if raw.Family == unix.AF_INET {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(&raw))
		return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), port), nil
	}
	return netip.AddrPortFrom(netip.AddrFrom16(raw.Addr), port), nil
}

// ip6tSoOriginalDst is IP6T_SO_ORIGINAL_DST of linux/netfilter_ipv6/ip6_tables.h.
const ip6tSoOriginalDst = 80

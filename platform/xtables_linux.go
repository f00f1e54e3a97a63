package platform

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform/inet"
)

// getinfo is the kernel's struct ipt_getinfo, and ip6t_getinfo.
type getinfo struct {
	name             [32]byte
	hooks            uint32
	entry, underflow [5]uint32
	entries, size    uint32
}

// soGetInfo is IPT_SO_GET_INFO, and IP6T_SO_GET_INFO.
const soGetInfo = 64

// XTables returns the size of a table (nat, filter, …) in the network namespace of the calling thread, at the cost of
// three system calls. A table that does not exist is created. Needs CAP_NET_ADMIN.
func XTables(family inet.Family, table string) (XTablesSize, error) {
	domain, level := unix.AF_INET, unix.SOL_IP
	if family == inet.IPv6 {
		domain, level = unix.AF_INET6, unix.SOL_IPV6
	}
	fd, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return XTablesSize{}, fmt.Errorf("size of table %s: %w", table, err)
	}
	defer unix.Close(fd)
	var info getinfo
	copy(info.name[:len(info.name)-1], table)
	length := uint32(unsafe.Sizeof(info))
	_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), soGetInfo,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&length)), 0)
	if e != 0 {
		return XTablesSize{}, fmt.Errorf("size of table %s: %w", table, e)
	}
	return XTablesSize{info.entries, info.size}, nil
}

package wine

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in the kernel's struct seccomp_data.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetLevel  = 16 + 8  // low half of the second argument
	offsetOption = 16 + 16 // low half of the third
)

// BindExactly makes setsockopt(SO_BINDTODEVICE) and setsockopt(IP_UNICAST_IF) fail with EPERM for this process and all
// that it starts. Wine turns a UDP bind to one address of an interface into a bind to all addresses and one of these
// options, so that two addresses could not share a port, and replies could leave from another address. Where both
// options fail it binds to the address, as Windows does. The wineserver does the binding: it has to be started by a
// process with this filter.
func BindExactly() error {
	// A thread may only filter its own calls without privileges if it gives up setuid programs; the filter takes that to
	// the other threads (TSYNC).
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	program := filter()
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return fmt.Errorf("install the seccomp filter: %w", errno)
	}
	if thread != 0 {
		return fmt.Errorf("install the seccomp filter: thread %d has another one", thread)
	}
	return nil
}

// filter is the program of BindExactly. A jump says how many instructions it passes over, when true and when false.
func filter() []unix.SockFilter {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	result := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	const allow, refuse = 11, 12
	return []unix.SockFilter{
		0:      load(offsetArch),
		1:      equal(unix.AUDIT_ARCH_X86_64, 0, allow-2),
		2:      load(offsetNumber),
		3:      equal(unix.SYS_SETSOCKOPT, 0, allow-4),
		4:      load(offsetLevel),
		5:      equal(unix.SOL_SOCKET, 0, 2),
		6:      load(offsetOption),
		7:      equal(unix.SO_BINDTODEVICE, refuse-8, allow-8),
		8:      equal(unix.IPPROTO_IP, 0, allow-9),
		9:      load(offsetOption),
		10:     equal(unix.IP_UNICAST_IF, refuse-11, allow-11),
		allow:  result(unix.SECCOMP_RET_ALLOW),
		refuse: result(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)),
	}
}

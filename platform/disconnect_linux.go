package platform

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Disconnect resets a TCP connection, whoever else has its socket open.
func Disconnect(fd int) {
	var unspecified unix.RawSockaddr // AF_UNSPEC
	syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&unspecified)),
		unsafe.Sizeof(unspecified)) //nolint:errcheck // it may be closed already
}

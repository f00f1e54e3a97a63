package platform

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Kernel returns the version of the running kernel by uname.
func Kernel() (v KernelVersion) {
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &v[0], &v[1])
	}
	return v
}

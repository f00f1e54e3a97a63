//go:build !windows

package connlog

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// errnoName returns the name of an error number, such as ECONNRESET, "" for 0 and for one without a name.
func errnoName(n syscall.Errno) string { return unix.ErrnoName(n) }

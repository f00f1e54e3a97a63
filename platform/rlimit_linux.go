package platform

import (
	"fmt"
	"syscall"
)

// RaiseNoFile raises the soft limit of open descriptors (RLIMIT_NOFILE) to the hard limit, and returns both. Commands
// started later inherit them.
func RaiseNoFile() (soft, hard uint64, err error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, 0, fmt.Errorf("read the limit of open descriptors: %w", err)
	}
	raised := syscall.Rlimit{Cur: limit.Max, Max: limit.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err != nil {
		return limit.Cur, limit.Max, fmt.Errorf("raise the limit of open descriptors from %d to %d: %w",
			limit.Cur, limit.Max, err)
	}
	return raised.Cur, raised.Max, nil
}

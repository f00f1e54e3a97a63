package record

import "syscall"

// What records say of dials that failed. Engines say it alike on every system: Windows has numbers and texts of its
// own, which they translate.
var (
	refused     = syscall.ECONNREFUSED.Error()
	reset       = syscall.ECONNRESET.Error()
	unreachable = []string{
		syscall.EHOSTUNREACH.Error(), syscall.ENETUNREACH.Error(), syscall.EHOSTDOWN.Error(),
	}
	forbidden = []string{syscall.EACCES.Error(), syscall.EPERM.Error()}
)

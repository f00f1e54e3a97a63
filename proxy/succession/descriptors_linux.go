package succession

import (
	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/succession/handover"
)

// duplicateOf duplicates the socket at an address. False: there is none, or it is closed just now, and its number is
// another file's.
func duplicateOf(core *splice.Core, s handover.Socket) (file int, is bool) {
	open, is := core.Moving().FileAt(service.Frontend{Addr: s.Address, Protocol: s.Name.Protocol})
	if !is {
		return 0, false
	}
	file, err := unix.FcntlInt(uintptr(open), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	if at, err := platform.BoundTo(file); err != nil || at != s.Address {
		closeFiles([]int{file})
		return 0, false
	}
	return file, true
}

func closeBoth(pair [2]int) { closeFiles(pair[:]) }

func closeFiles(files []int) {
	for _, fd := range files {
		_ = unix.Close(fd) // it is open
	}
}

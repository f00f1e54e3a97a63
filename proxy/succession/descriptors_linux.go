package succession

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/succession/handover"
)

// errNotOpen: there is no such socket, or it is closed just now, and its number is another file's.
var errNotOpen = errors.New("no such socket is open")

// duplicateOf duplicates the socket at an address. Another error than errNotOpen is a shortage.
func duplicateOf(core *splice.Core, s handover.Socket) (file int, err error) {
	open, is := core.Moving().FileAt(service.Frontend{Addr: s.Address, Protocol: s.Name.Protocol})
	if !is {
		return 0, errNotOpen
	}
	file, err = unix.FcntlInt(uintptr(open), unix.F_DUPFD_CLOEXEC, 0)
	if errors.Is(err, unix.EBADF) {
		return 0, errNotOpen
	}
	if err != nil {
		return 0, err
	}
	if at, err := platform.BoundTo(file); err != nil || at != s.Address {
		closeFiles([]int{file})
		return 0, errNotOpen
	}
	return file, nil
}

func closeBoth(pair [2]int) { closeFiles(pair[:]) }

func closeFiles(files []int) {
	for _, fd := range files {
		_ = unix.Close(fd) // it is open
	}
}

package epoll

import (
	"golang.org/x/sys/unix"

	"github.com/portald/portald/proxy/splice/pipe"
)

// Keeper is told what an engine opens and closes that somebody else keeps for its successor. Loops call it: it must not
// block. Descriptors that it gets are its own.
type Keeper interface {
	PipeOpened(id uint32, r, w int)
	PipeClosed(id uint32)
	// KeepsPipe tells whether a pipe is kept, so that bytes in it are not lost, or whether it may be later.
	KeepsPipe(id uint32) (now, later bool)
	// Ended tells that a connection has ended, or is a successor's. Once nobody keeps it its slot is for Memory.GiveSlots.
	Ended(slot uint32)
}

// keeping is a memory and who keeps it. Without a memory nobody does.
type keeping struct {
	memory *Memory
	keeper Keeper
}

func (k *keeping) pipeOpened(p pipe.Pipe) {
	if k.memory == nil {
		return
	}
	r, w := p.Files()
	if pair, ok := duplicates(r, w); ok {
		k.keeper.PipeOpened(p.ID, pair[0], pair[1])
	}
}

func (k *keeping) pipeUsable(p pipe.Pipe) pipe.Use {
	if k.memory == nil {
		return pipe.Now
	}
	switch now, later := k.keeper.KeepsPipe(p.ID); {
	case now:
		return pipe.Now
	case later:
		return pipe.Later
	}
	return pipe.Never
}

func (k *keeping) pipeClosed(p pipe.Pipe) {
	if k.memory != nil {
		k.keeper.PipeClosed(p.ID)
	}
}

// duplicates returns duplicates of both descriptors, or of none.
func duplicates(a, b int) (pair [2]int, ok bool) {
	for i, fd := range []int{a, b} {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			if i == 1 {
				sysClose(pair[0])
			}
			return pair, false
		}
		pair[i] = dup
	}
	return pair, true
}

package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/handover"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/epoll"
	"github.com/portald/portald/proxy/userspace"
)

// keeping gives a keeper what is open, so that the next portald can go on with it if this one dies: see portald keep.
// It implements epoll.Keeper.
type keeping struct {
	memory *epoll.Memory
	found  *handover.Keeping // at the start
	due    chan struct{}     // holds one while there is something to tell
	full   bool              // the keeper had no room

	mu    sync.Mutex
	pipes map[uint32][2]int // guarded by mu, as what follows: duplicates of those that the keeper does not have
	gone  handover.Dropped  // what it need not hold any more
}

// findKeeper finds a keeper, nil if there is none.
func (d *daemon) findKeeper(cfg *config.Config) *keeping {
	if cfg.KeepSocket == "" || cfg.Engine == config.EngineGoroutine {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), keeperTime)
	defer cancel()
	found, err := handover.FindKeeper(ctx, cfg.KeepSocket, d.identity())
	if errors.Is(err, handover.ErrNone) {
		return nil
	}
	var memory *epoll.Memory
	if err == nil {
		memory, err = epoll.NewMemory()
	}
	if err != nil {
		d.log.WithError(err).Warn("No keeper holds what is open: a crash ends it")
		return nil
	}
	return &keeping{memory: memory, found: found, due: make(chan struct{}, 1), pipes: map[uint32][2]int{}}
}

// keeperTime is how long a keeper may take to answer at the start.
const keeperTime = 2 * time.Second

// places is how many connections there is room for in the memory, 0 without a keeper.
func (k *keeping) places() int {
	if k == nil {
		return 0
	}
	return epoll.MaxKept
}

// PipeOpened implements epoll.Keeper.
func (k *keeping) PipeOpened(id uint32, r, w int) {
	k.mu.Lock()
	k.pipes[id] = [2]int{r, w}
	k.mu.Unlock()
	k.tell()
}

// PipeClosed implements epoll.Keeper.
func (k *keeping) PipeClosed(id uint32) {
	k.mu.Lock()
	pair, unknown := k.pipes[id]
	delete(k.pipes, id)
	if !unknown {
		k.gone.Pipes = append(k.gone.Pipes, id)
	}
	k.mu.Unlock()
	if unknown {
		closeBoth(pair)
	}
	k.tell()
}

// Ended implements epoll.Keeper.
func (k *keeping) Ended(slot uint32) {
	k.mu.Lock()
	k.gone.Slots = append(k.gone.Slots, slot)
	k.mu.Unlock()
	k.tell()
}

func (k *keeping) tell() {
	select {
	case k.due <- struct{}{}:
	default:
	}
}

func closeBoth(pair [2]int) {
	_ = unix.Close(pair[0]) // it is open
	_ = unix.Close(pair[1])
}

// keptAge is how old a connection is when it is given to the keeper: most end before. keepPeriod is how often younger
// ones are looked through, keeperAgain how often a keeper is looked for that has gone, and tellPause how long news for
// it are gathered.
const (
	keptAge     = time.Second
	keepPeriod  = 500 * time.Millisecond
	keeperAgain = 5 * time.Second
	tellPause   = 10 * time.Millisecond
)

// keepAll keeps what is open until ctx ends, once this daemon serves the node.
func (d *daemon) keepAll(ctx context.Context) error {
	k := d.keeping
	if k == nil || !d.heritage.whenServing(ctx) {
		return nil
	}
	keeper := k.found
	d.log.Info("A keeper holds listeners and connections in case this portald crashes")
	for {
		err := d.keepWith(ctx, k, keeper)
		if ctx.Err() != nil {
			return nil
		}
		d.log.WithError(err).Warn("The keeper is gone: a crash ends connections until there is one again")
		keeper.Close()
		for keeper = nil; keeper == nil; {
			k.forget()
			if pause(ctx, keeperAgain); ctx.Err() != nil {
				return nil
			}
			keeper, _ = handover.FindKeeper(ctx, d.rules.cfg.KeepSocket, d.identity())
		}
		d.log.Info("There is a keeper again")
	}
}

// keepWith gives one keeper all that is open, and then what changes, until ctx ends or the keeper is gone.
func (d *daemon) keepWith(ctx context.Context, k *keeping, keeper *handover.Keeping) error {
	gone := make(chan error, 1)
	go func() { gone <- keeper.Wait() }() // until the keeper is closed here
	err := keeper.Keep(handover.Kept{Memory: true}, k.memory.File())
	held := map[handover.Socket]bool{}
	scan := time.NewTicker(keepPeriod)
	defer scan.Stop()
	for again := true; err == nil; {
		if err = k.flush(keeper); err != nil {
			break
		}
		if err = d.keepSockets(keeper, held); err != nil {
			break
		}
		d.path.core.Keep(keptAge, again, func(some []*splice.Kept) {
			if err == nil {
				err = d.unlessFull(k, keeper.KeepConns(some))
			}
			for _, c := range some {
				closeBoth([2]int(c.Files))
			}
		})
		again = false
		for next := false; !next && err == nil; {
			select {
			case <-ctx.Done():
				return keeper.Bye() // what ends from now on ends here
			case err = <-gone:
			case <-scan.C:
				next = true
			case <-k.due:
				pause(ctx, tellPause)
				err = k.flush(keeper)
			}
		}
	}
	return err
}

// unlessFull logs, once, that the keeper has no room: what it has it keeps.
func (d *daemon) unlessFull(k *keeping, err error) error {
	if !errors.Is(err, handover.ErrFull) {
		return err
	}
	if !k.full {
		k.full = true
		d.log.Warn("The keeper may not open more descriptors, and a crash ends connections that it does not have: raise " +
			"its limit (LimitNOFILE of systemd, that of the container runtime)")
	}
	return nil
}

// flush tells the keeper of pipes that were opened and of all that has ended.
func (k *keeping) flush(keeper *handover.Keeping) error {
	gone, pipes := k.news()
	var err error
	for len(gone.Slots)+len(gone.Pipes) > 0 && err == nil {
		slots, ids := gone.Slots[:min(len(gone.Slots), namesAtOnce)], gone.Pipes[:min(len(gone.Pipes), namesAtOnce)]
		err = keeper.Drop(handover.Dropped{Slots: slots, Pipes: ids})
		k.memory.GiveSlots(slots)
		gone.Slots, gone.Pipes = gone.Slots[len(slots):], gone.Pipes[len(ids):]
	}
	for some := range slices.Chunk(slices.Collect(maps.Keys(pipes)), pipesAtOnce) {
		var files []int
		for _, id := range some {
			pair := pipes[id]
			files = append(files, pair[:]...)
		}
		if err == nil {
			if err = keeper.Keep(handover.Kept{Pipes: some}, files...); errors.Is(err, handover.ErrFull) {
				err = nil // a connection with bytes in such a pipe is reset after a crash
			}
		}
		for _, fd := range files {
			_ = unix.Close(fd) // it is open
		}
	}
	return err
}

// news are what was opened and has ended since the last call.
func (k *keeping) news() (gone handover.Dropped, pipes map[uint32][2]int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	gone, pipes = k.gone, k.pipes
	k.gone, k.pipes = handover.Dropped{}, map[uint32][2]int{}
	return gone, pipes
}

// forget drops the news while there is no keeper.
func (k *keeping) forget() {
	gone, pipes := k.news()
	k.memory.GiveSlots(gone.Slots)
	for _, pair := range pipes {
		closeBoth(pair)
	}
}

// How many pipes, and names of what has gone, one message has.
const (
	pipesAtOnce = 64
	namesAtOnce = 4096
)

// keepSockets gives the keeper the sockets that were opened, and takes back those that were closed.
func (d *daemon) keepSockets(keeper *handover.Keeping, held map[handover.Socket]bool) error {
	open := map[handover.Socket]bool{}
	for _, s := range d.path.listeners.Sockets() {
		at := handover.Socket{Kind: handover.Front, Name: s.Name, Address: s.At}
		open[at] = true
		if held[at] {
			continue
		}
		file, is := duplicateOf(s)
		if !is {
			delete(open, at) // it was closed just now
			continue
		}
		err := d.unlessFull(d.keeping, keeper.Keep(handover.Kept{Sockets: []handover.Socket{at}}, file))
		_ = unix.Close(file) // it is open
		if err != nil {
			return err
		}
		held[at] = true
	}
	for at := range held {
		if !open[at] {
			delete(held, at)
			if err := keeper.Drop(handover.Dropped{Sockets: []handover.Socket{at}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// duplicateOf duplicates a socket of a front, unless it was closed meanwhile and the number is another file's.
func duplicateOf(s userspace.Socket) (file int, is bool) {
	file, err := unix.FcntlInt(uintptr(s.File), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	if at, err := platform.BoundTo(file); err != nil || at != s.At {
		_ = unix.Close(file) // it is open
		return 0, false
	}
	return file, true
}

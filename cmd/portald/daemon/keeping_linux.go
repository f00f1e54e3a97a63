package daemon

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/handover"
	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/epoll"
)

// keeping gives a keeper what is open, so that the next portald can go on with it if this one dies: see portald keep.
// It implements epoll.Keeper.
type keeping struct {
	memory *epoll.Memory
	found  *handover.Keeping // at the start
	due    chan struct{}     // holds one while there is something to tell
	full   bool              // the keeper had no room
	holds  atomic.Bool       // a keeper is there, and got all that was open

	mu   sync.Mutex
	news news // guarded by mu
}

// news are what the keeper does not know yet.
type news struct {
	sockets map[handover.Socket]bool // that were opened or closed
	pipes   map[uint32][2]int        // duplicates of those that were opened
	gone    handover.Dropped         // connections and pipes that it need not hold any more
}

func newNews() news { return news{sockets: map[handover.Socket]bool{}, pipes: map[uint32][2]int{}} }

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
	k := &keeping{memory: memory, found: found, due: make(chan struct{}, 1), news: newNews()}
	d.telemetry.metrics.WatchKeeper(k.holds.Load)
	return k
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
	k.news.pipes[id] = [2]int{r, w}
	k.mu.Unlock()
	k.tell()
}

// PipeClosed implements epoll.Keeper.
func (k *keeping) PipeClosed(id uint32) {
	k.mu.Lock()
	pair, unknown := k.news.pipes[id]
	delete(k.news.pipes, id)
	if !unknown {
		k.news.gone.Pipes = append(k.news.gone.Pipes, id)
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
	k.news.gone.Slots = append(k.news.gone.Slots, slot)
	k.mu.Unlock()
	k.tell()
}

// socketChanged implements splice.Options.Listening.
func (k *keeping) socketChanged(name service.PortName, at netip.AddrPort) {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.news.sockets[handover.Socket{Kind: handover.Front, Name: name, Address: at}] = true
	k.mu.Unlock()
	k.tell()
}

func (k *keeping) tell() {
	select {
	case k.due <- struct{}{}:
	default:
	}
}

func closeBoth(pair [2]int) { closeFiles(pair[:]) }

func closeFiles(files []int) {
	for _, fd := range files {
		_ = unix.Close(fd) // it is open
	}
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
		k.holds.Store(false)
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
	for _, s := range d.path.listeners.Sockets() {
		k.socketChanged(s.Name, s.At)
	}
	scan := time.NewTicker(keepPeriod)
	defer scan.Stop()
	for again := true; err == nil; {
		if err = d.flush(k, keeper); err != nil {
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
		k.holds.Store(err == nil)
		for next := false; !next && err == nil; {
			select {
			case <-ctx.Done():
				return keeper.Bye() // what ends from now on ends here
			case err = <-gone:
			case <-scan.C:
				next = true
			case <-k.due:
				pause(ctx, tellPause)
				err = d.flush(k, keeper)
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

// flush tells the keeper of all that has changed.
func (d *daemon) flush(k *keeping, keeper *handover.Keeping) error {
	n := k.take()
	err := k.drop(keeper, n.gone)
	if err == nil {
		err = d.keepSockets(k, keeper, slices.Collect(maps.Keys(n.sockets)))
	}
	for some := range slices.Chunk(slices.Collect(maps.Keys(n.pipes)), pairsAtOnce) {
		var files []int
		for _, id := range some {
			pair := n.pipes[id]
			files = append(files, pair[:]...)
		}
		if err == nil {
			if err = keeper.Keep(handover.Kept{Pipes: some}, files...); errors.Is(err, handover.ErrFull) {
				err = nil // a connection with bytes in such a pipe is reset after a crash
			}
		}
		closeFiles(files)
	}
	return err
}

// take returns the news since the last call.
func (k *keeping) take() news {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.news
	k.news = newNews()
	return n
}

// drop tells the keeper what it need not hold any more.
func (k *keeping) drop(keeper *handover.Keeping, gone handover.Dropped) (err error) {
	for len(gone.Slots)+len(gone.Pipes) > 0 && err == nil {
		slots, ids := gone.Slots[:min(len(gone.Slots), namesAtOnce)], gone.Pipes[:min(len(gone.Pipes), namesAtOnce)]
		err = keeper.Drop(handover.Dropped{Slots: slots, Pipes: ids})
		k.memory.GiveSlots(slots)
		gone.Slots, gone.Pipes = gone.Slots[len(slots):], gone.Pipes[len(ids):]
	}
	return err
}

// forget drops the news while there is no keeper.
func (k *keeping) forget() {
	n := k.take()
	k.memory.GiveSlots(n.gone.Slots)
	for _, pair := range n.pipes {
		closeBoth(pair)
	}
}

// How many pairs of descriptors, or sockets, and names of what has gone, one message has.
const (
	pairsAtOnce = 64
	namesAtOnce = 4096
)

// keepSockets gives the keeper those of these sockets that are open, and takes back the others.
func (d *daemon) keepSockets(k *keeping, keeper *handover.Keeping, changed []handover.Socket) error {
	for some := range slices.Chunk(changed, pairsAtOnce) {
		var open, closed []handover.Socket
		var files []int
		for _, at := range some {
			if file, is := d.duplicateOf(at); is {
				open, files = append(open, at), append(files, file)
			} else {
				closed = append(closed, at)
			}
		}
		err := keeper.Drop(handover.Dropped{Sockets: closed})
		if err == nil && len(open) > 0 {
			err = d.unlessFull(k, keeper.Keep(handover.Kept{Sockets: open}, files...))
		}
		closeFiles(files)
		if err != nil {
			return err
		}
	}
	return nil
}

// duplicateOf duplicates the socket at an address. False: there is none, or it is closed just now, and its number is
// another file's.
func (d *daemon) duplicateOf(s handover.Socket) (file int, is bool) {
	open, is := d.path.core.FileAt(service.Frontend{Addr: s.Address, Protocol: s.Name.Protocol})
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

package daemon

import (
	"errors"
	"maps"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/handover"
)

// news are what the keeper does not know yet.
type news struct {
	sockets map[handover.Socket]bool // that were opened or closed
	pipes   map[uint32][2]int        // duplicates of those that were opened
	gone    handover.Dropped         // connections and pipes that it need not hold any more
}

func newNews() news { return news{sockets: map[handover.Socket]bool{}, pipes: map[uint32][2]int{}} }

// PipeOpened implements epoll.Keeper.
func (k *keeping) PipeOpened(id uint32, r, w int) {
	k.pipes.opened(id)
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
	k.pipes.told(id)
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

// flush tells the keeper of all that has changed.
func (d *daemon) flush(k *keeping, keeper *handover.Keeping) error {
	n := k.take()
	err := k.drop(keeper, n.gone)
	if err == nil {
		err = d.keepSockets(keeper, slices.Collect(maps.Keys(n.sockets)))
	}
	for some := range slices.Chunk(slices.Collect(maps.Keys(n.pipes)), pairsAtOnce) {
		var files []int
		for _, id := range some {
			pair := n.pipes[id]
			files = append(files, pair[:]...)
		}
		if err == nil {
			err = unlessFull(keeper.Keep(handover.Kept{Pipes: some}, files...))
		}
		k.pipes.told(some...)
		closeFiles(files)
	}
	return err
}

// unlessFull is nil for a keeper without room: after a crash clients of such a listener are refused, and a connection
// with bytes in such a pipe is reset.
func unlessFull(err error) error {
	if errors.Is(err, handover.ErrFull) {
		return nil
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
func (k *keeping) drop(keeper *handover.Keeping, gone handover.Dropped) error {
	err := keeper.Drop(gone)
	k.memory.GiveSlots(gone.Slots)
	return err
}

// forget drops the news while there is no keeper.
func (k *keeping) forget() {
	n := k.take()
	k.memory.GiveSlots(n.gone.Slots)
	k.pipes.forget(slices.Collect(maps.Keys(n.pipes)))
	for _, pair := range n.pipes {
		closeBoth(pair)
	}
}

// pairsAtOnce is how many pairs of descriptors, or sockets, are duplicated at a time.
const pairsAtOnce = 64

// keepSockets gives the keeper those of these sockets that are open, and takes back the others.
func (d *daemon) keepSockets(keeper *handover.Keeping, changed []handover.Socket) error {
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
			err = unlessFull(keeper.Keep(handover.Kept{Sockets: open}, files...))
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

package succession

import (
	"errors"
	"maps"
	"net/netip"
	"slices"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/succession/handover"
)

// pendingUpdates has the changes that the keeper does not know yet.
type pendingUpdates struct {
	sockets map[handover.Socket]bool // that were opened or closed
	pipes   map[uint32][2]int        // duplicates of those that were opened
	gone    handover.Dropped         // connections and pipes that it need not keep any more
	short   bool                     // some of the sockets wait for descriptors
}

func newPendingUpdates() pendingUpdates {
	return pendingUpdates{sockets: map[handover.Socket]bool{}, pipes: map[uint32][2]int{}}
}

// PipeOpened implements epoll.Keeper.
func (k *Keeper) PipeOpened(id uint32, r, w int) {
	k.pipes.opened(id)
	k.mu.Lock()
	k.pending.pipes[id] = [2]int{r, w}
	k.mu.Unlock()
	k.tell()
}

// PipeClosed implements epoll.Keeper.
func (k *Keeper) PipeClosed(id uint32) {
	k.mu.Lock()
	pair, unknown := k.pending.pipes[id]
	delete(k.pending.pipes, id)
	if !unknown {
		k.pending.gone.Pipes = append(k.pending.gone.Pipes, id)
	}
	k.mu.Unlock()
	if unknown {
		closeBoth(pair)
	}
	k.pipes.told(id)
	k.tell()
}

// Ended implements epoll.Keeper.
func (k *Keeper) Ended(slot uint32) {
	k.mu.Lock()
	k.pending.gone.Slots = append(k.pending.gone.Slots, slot)
	k.mu.Unlock()
	k.tell()
}

// SocketChanged implements splice.Options.Listening.
func (k *Keeper) SocketChanged(name service.PortName, at netip.AddrPort) {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.pending.sockets[handover.Socket{Kind: handover.Front, Name: name, Address: at}] = true
	k.mu.Unlock()
	k.tell()
}

// lacks notes that the keeper lacks a socket for which there is no descriptor now. True: it had lacked none.
func (k *Keeper) lacks(s handover.Socket) (first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pending.sockets[s] = true
	first = !k.short
	k.short, k.pending.short = true, true
	return first
}

// hasAllSockets tells whether the keeper lacks none.
func (k *Keeper) hasAllSockets() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.short = k.pending.short
	return !k.short
}

func (k *Keeper) tell() {
	select {
	case k.due <- struct{}{}:
	default:
	}
}

// unlessFull is nil for a keeper without room: after a crash clients of such a listener are refused, and a connection
// with bytes in such a pipe is reset.
func unlessFull(err error) error {
	if errors.Is(err, handover.ErrFull) {
		return nil
	}
	return err
}

// take returns the updates since the last call.
func (k *Keeper) take() pendingUpdates {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.pending
	k.pending = newPendingUpdates()
	return n
}

// drop tells the keeper what it need not keep any more.
func (k *Keeper) drop(keeper *handover.Keeping, gone handover.Dropped) error {
	err := keeper.Drop(gone)
	k.memory.GiveSlots(gone.Slots)
	return err
}

// forget drops the updates while there is no keeper.
func (k *Keeper) forget() {
	n := k.take()
	k.memory.GiveSlots(n.gone.Slots)
	k.pipes.forget(slices.Collect(maps.Keys(n.pipes)))
	for _, pair := range n.pipes {
		closeBoth(pair)
	}
}

// pairsAtOnce is how many pairs of descriptors, or sockets, are duplicated at a time.
const pairsAtOnce = 64

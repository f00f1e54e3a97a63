package succession

import (
	"sync"
	"sync/atomic"
)

// keptPipes knows which pipes a keeper has: bytes in another one are lost in a crash. Loops ask for each load, without
// a lock but for the moments after a pipe was made.
type keptPipes struct {
	on    atomic.Bool   // a keeper is told of pipes; before, all may be used
	since atomic.Uint32 // the newest pipe that it is never told of
	due   atomic.Int32  // the size of untold

	mu        sync.Mutex
	untold    map[uint32]bool // guarded by mu, as what follows
	newest    uint32
	forgotten uint32 // the newest that no keeper will be told of any more
}

// opened notes that a keeper is to be told of a pipe.
func (p *keptPipes) opened(id uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.untold == nil {
		p.untold = map[uint32]bool{}
	}
	p.newest = max(p.newest, id)
	p.untold[id] = true
	p.due.Store(int32(len(p.untold)))
}

// told notes that it was told, or that pipes are closed.
func (p *keptPipes) told(ids ...uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		delete(p.untold, id)
	}
	p.due.Store(int32(len(p.untold)))
}

// begin is called when a keeper is about to be told of all pipes, but for those that are forgotten.
func (p *keptPipes) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since.Store(p.forgotten)
	p.on.Store(true)
}

// end is called when it is gone: the next one is not told of what there is.
func (p *keptPipes) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on.Store(false)
	p.forgotten = p.newest
}

// forget notes that no keeper will be told of these.
func (p *keptPipes) forget(ids []uint32) {
	p.told(ids...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		p.forgotten = max(p.forgotten, id)
	}
}

// has tells whether the keeper has a pipe, or will have it soon. Without a keeper it does not matter.
func (p *keptPipes) has(id uint32) (now, later bool) {
	switch {
	case !p.on.Load():
		return true, true
	case id <= p.since.Load():
		return false, false
	case p.due.Load() == 0:
		return true, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.untold[id], true
}

// KeepsPipe implements epoll.Keeper.
func (k *Keeper) KeepsPipe(id uint32) (now, later bool) { return k.pipes.has(id) }

package succession

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/epoll"
	"github.com/portald/portald/proxy/succession/handover"
)

// Keeper gives a process portald keep the descriptors of what is open, so that the next portald can go on with it if
// this one dies. It implements epoll.Keeper.
type Keeper struct {
	path string
	own  handover.Identity

	memory   *epoll.Memory
	initial  *handover.Keeping // the connection made at the start; nil: it is lost
	gave     bool              // it has the memory, and all that has been kept
	carries  []string          // daemons whose connections go on here after a claim: see handover.Hello
	pipes    keptPipes
	due      chan struct{} // holds one while there is something to tell
	full     int           // attempts in a row that found no room at the keeper
	large    atomic.Uint64 // connections that were too large for it
	upToDate atomic.Bool   // a keeper is there, and got all that was open

	mu      sync.Mutex
	pending pendingUpdates // guarded by mu
	short   bool           // sockets have waited for descriptors since hasAllSockets; guarded by mu
}

// FindKeeper finds the keeper at a socket, nil if there is none; what comes of it is counted in m.
func FindKeeper(path string, own handover.Identity, m *metrics.Metrics, log logrus.FieldLogger) *Keeper {
	ctx, cancel := context.WithTimeout(context.Background(), keeperTime)
	defer cancel()
	initial, err := handover.FindKeeper(ctx, path, own, nil)
	if errors.Is(err, handover.ErrNone) {
		return nil
	}
	var memory *epoll.Memory
	if err == nil {
		memory, err = epoll.NewMemory()
	}
	if err != nil {
		log.WithError(err).Warn("No keeper: a crash closes open connections")
		return nil
	}
	k := &Keeper{
		path: path, own: own, memory: memory, initial: initial, due: make(chan struct{}, 1), pending: newPendingUpdates(),
	}
	m.WatchKeeper(k.upToDate.Load, k.large.Load)
	return k
}

// Engine opens the epoll engine with so many loops, whose connections are kept unless k is nil.
func (k *Keeper) Engine(loops int) func(*splice.Core) (splice.Engine, error) {
	if k == nil {
		return epoll.Open(loops, nil, nil)
	}
	return epoll.Open(loops, k.memory, k)
}

// keeperTime is how long a keeper may take to answer at the start.
const keeperTime = 2 * time.Second

// Places is how many connections there is room for in the memory, 0 without a keeper.
func (k *Keeper) Places() int {
	if k == nil {
		return 0
	}
	return epoll.MaxKept
}

// KeptAge is the age from which on a connection is with the keeper: most end before.
const KeptAge = keptAge + keepPeriod

// keptAge is how old a connection is when it is given to the keeper. keepPeriod is how often younger ones are looked
// through, keeperAgain how often a keeper is looked for that has gone, and tellPause how long updates for it are
// gathered.
const (
	keptAge     = time.Second
	keepPeriod  = 500 * time.Millisecond
	keeperAgain = 5 * time.Second
	tellPause   = 10 * time.Millisecond
)

// Bye tells a keeper that was never used, once nothing runs any more, that this daemon ends in order. The keeper may
// give claimed connections that are not settled to the next one.
func (k *Keeper) Bye() {
	if k != nil && k.initial != nil {
		_ = k.initial.Bye() // or it is gone
	}
}

// lose closes the connection to the keeper that was there at the start. It is looked for again once this daemon serves.
func (k *Keeper) lose() {
	if k.initial != nil {
		k.initial.Close()
	}
	k.initial = nil
	k.end()
}

// end is called when the keeper is lost: it may live, and keep what is outdated from now on.
func (k *Keeper) end() {
	k.gave = false
	k.memory.GiveAll()
	k.pipes.end()
}

// giveMemory gives the keeper that was there at the start the memory that tells what happens to connections.
func (k *Keeper) giveMemory() error {
	if k.initial == nil {
		return errNoKeeper
	}
	k.gave = true
	k.pipes.begin()
	return k.initial.Keep(handover.Kept{Memory: true}, k.memory.File())
}

var errNoKeeper = errors.New("there is no keeper")

// restoredAtOnce is how many connections of a daemon that died are given to the keeper at a time: it keeps them twice
// for a moment, and what they have in pipes.
func (k *Keeper) restoredAtOnce() int {
	const most, files = 64, 6
	if k.initial == nil {
		return most
	}
	return max(1, min(most, k.initial.Room()/files))
}

// roomFor is how many connections the keeper has room for. It logs, once, that there has been none for a while: a
// keepReserve is how many descriptors are left for listeners and pipes, and fullScans how many looks at connections

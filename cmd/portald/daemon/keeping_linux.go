package daemon

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/proxy/handover"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/epoll"
)

// keeping gives a keeper what is open, so that the next portald can go on with it if this one dies: see portald keep.
// It implements epoll.Keeper.
type keeping struct {
	memory  *epoll.Memory
	found   *handover.Keeping // at the start; nil: it is lost
	gave    bool              // it has the memory, and all that has been kept
	carries []string          // whose connections go on here that a keeper held: see handover.Hello
	pipes   keptPipes
	due     chan struct{} // holds one while there is something to tell
	full    int           // looks in a row that found no room at the keeper
	large   atomic.Uint64 // connections that were too large for it
	holds   atomic.Bool   // a keeper is there, and got all that was open

	mu   sync.Mutex
	news news // guarded by mu
}

// findKeeper finds a keeper, nil if there is none.
func (d *daemon) findKeeper(cfg *config.Config) *keeping {
	if cfg.KeepSocket == "" || cfg.Engine == config.EngineGoroutine {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), keeperTime)
	defer cancel()
	found, err := handover.FindKeeper(ctx, cfg.KeepSocket, d.identity(), nil)
	if errors.Is(err, handover.ErrNone) {
		return nil
	}
	var memory *epoll.Memory
	if err == nil {
		memory, err = epoll.NewMemory()
	}
	if err != nil {
		d.log.WithError(err).Warn("No keeper: a crash closes open connections")
		return nil
	}
	k := &keeping{memory: memory, found: found, due: make(chan struct{}, 1), news: newNews()}
	d.telemetry.metrics.WatchKeeper(k.holds.Load, k.large.Load)
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

func closeBoth(pair [2]int) { closeFiles(pair[:]) }

func closeFiles(files []int) {
	for _, fd := range files {
		_ = unix.Close(fd) // it is open
	}
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

// keepAll keeps what is open until ctx ends, once this daemon serves the node.
func (d *daemon) keepAll(ctx context.Context) error {
	k := d.keeping
	if k == nil || !d.heritage.whenServing(ctx) {
		return nil
	}
	keeper := k.found
	k.found = nil
	if keeper != nil {
		d.log.Info("Keeper connected: it holds listeners and connections in case this portald crashes")
	}
	for {
		if keeper != nil {
			err := d.keepWith(ctx, k, keeper)
			if ctx.Err() != nil {
				return nil
			}
			k.holds.Store(false)
			d.path.core.Unkept()
			d.log.WithError(err).Warn("The keeper is gone: until there is one again, a crash closes open " +
				"connections")
			keeper.Close()
			k.end()
		}
		for keeper = nil; keeper == nil; {
			k.forget()
			if parts.Pause(ctx, keeperAgain); ctx.Err() != nil {
				return nil
			}
			keeper = d.findKeeperAgain(ctx, k)
		}
		d.log.Info("Keeper connected again")
	}
}

// findKeeperAgain finds the keeper once it was lost, nil if there is none that answers.
func (d *daemon) findKeeperAgain(ctx context.Context, k *keeping) *handover.Keeping {
	ctx, cancel := context.WithTimeout(ctx, keeperTime)
	defer cancel()
	keeper, _ := handover.FindKeeper(ctx, d.rules.cfg.KeepSocket, d.identity(), k.carries)
	return keeper
}

// bye tells a keeper that was never used, once nothing runs any more, that this daemon ends in order. What was claimed
// and is not settled it may give to the next one.
func (k *keeping) bye() {
	if k != nil && k.found != nil {
		_ = k.found.Bye() // or it is gone
	}
}

// lose closes the connection to the keeper that was there at the start. It is looked for again once this daemon serves.
func (k *keeping) lose() {
	if k.found != nil {
		k.found.Close()
	}
	k.found = nil
	k.end()
}

// end is called when the keeper is lost: it may live, and hold what is outdated from now on.
func (k *keeping) end() {
	k.gave = false
	k.memory.GiveAll()
	k.pipes.end()
}

// giveMemory gives the keeper that was there at the start the memory that tells what happens to connections.
func (k *keeping) giveMemory() error {
	if k.found == nil {
		return errNoKeeper
	}
	k.gave = true
	k.pipes.begin()
	return k.found.Keep(handover.Kept{Memory: true}, k.memory.File())
}

var errNoKeeper = errors.New("there is no keeper")

// restoredAtOnce is how many connections of a daemon that died are given to the keeper at a time: it holds them twice
// for a moment, and what they have in pipes.
func (k *keeping) restoredAtOnce() int {
	const most, files = 64, 6
	if k.found == nil {
		return most
	}
	return max(1, min(most, k.found.Room()/files))
}

// keepWith gives one keeper all that is open, and then what changes, until ctx ends or the keeper is gone.
func (d *daemon) keepWith(ctx context.Context, k *keeping, keeper *handover.Keeping) error {
	gone := make(chan error, 1)
	go func() { gone <- keeper.Wait() }() // until the keeper is closed here
	var err error
	again := !k.gave
	if again {
		k.pipes.begin()
		err = keeper.Keep(handover.Kept{Memory: true}, k.memory.File())
	}
	for _, s := range d.path.listeners.Fronts().Sockets() {
		k.socketChanged(s.Name, s.At)
	}
	scan := time.NewTicker(keepPeriod)
	defer scan.Stop()
	for ; err == nil; again = false {
		if err = d.flush(k, keeper); err != nil {
			break
		}
		d.path.core.Keep(keptAge, again, d.roomFor(k, keeper), func(some []*splice.Kept) {
			if err == nil {
				err = d.keepConns(k, keeper, some)
			}
			for _, c := range some {
				closeBoth([2]int(c.Files))
			}
		})
		if err == nil {
			err = keeper.Ping()
		}
		k.holds.Store(err == nil)
		for next := false; !next && err == nil; {
			select {
			case <-ctx.Done():
				return keeper.Bye() // what ends from now on ends here
			case err = <-gone:
			case <-scan.C:
				next = true
			case <-k.due:
				parts.Pause(ctx, tellPause)
				err = d.flush(k, keeper)
			}
		}
	}
	return err
}

// keepConns gives the keeper connections. It logs, once, that there are some that it cannot get.
func (d *daemon) keepConns(k *keeping, keeper *handover.Keeping, all []*splice.Kept) error {
	large, err := keeper.KeepConns(all)
	if large > 0 && k.large.Add(uint64(large)) == uint64(large) {
		d.log.Warnf("Cannot pass %d connections to the keeper: they do not fit into a message "+
			"(net.core.wmem_max), and a crash closes them; see portald_unkept_connections_total", large)
	}
	return err
}

// roomFor is how many connections the keeper has room for. It logs, once, that there has been none for a while: a
// predecessor may still have what is about to be this daemon's.
func (d *daemon) roomFor(k *keeping, keeper *handover.Keeping) int {
	n := (keeper.Room() - keepReserve) / 2
	if n > 0 {
		k.full = 0
	} else if k.full++; k.full == fullScans {
		d.log.Warn("The keeper is at its limit of open descriptors: a crash closes the connections that it does " +
			"not hold; raise the limit (LimitNOFILE of systemd, that of the container runtime)")
	}
	return n
}

// keepReserve is how many descriptors are left for listeners and pipes, and fullScans how many looks at connections
// find no room before that is logged.
const (
	keepReserve = 128
	fullScans   = 20
)

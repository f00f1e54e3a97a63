package succession

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/succession/handover"
)

// keeperFeed gives a keeper what is open, and tells it what changes.
type keeperFeed struct{ *Options }

// keepAll keeps what is open until ctx ends, once this daemon serves the node.
func (d keeperFeed) keepAll(ctx context.Context) error {
	k := d.Keeper
	if k == nil || !d.State.WhenServing(ctx) {
		return nil
	}
	keeper := k.initial
	k.initial = nil
	if keeper != nil {
		d.Log.Info("Keeper connected: it holds listeners and connections in case this portald crashes")
	}
	for {
		if keeper != nil {
			err := d.keepWith(ctx, keeper)
			if ctx.Err() != nil {
				return nil
			}
			k.upToDate.Store(false)
			d.Core.Moving().Unkept()
			d.Log.WithError(err).Warn("The keeper is gone: until there is one again, a crash closes open " +
				"connections")
			keeper.Close()
			k.end()
		}
		for keeper = nil; keeper == nil; {
			k.forget()
			if backoff.Sleep(ctx, keeperAgain) != nil {
				return nil
			}
			keeper = d.findKeeperAgain(ctx)
		}
		d.Log.Info("Keeper connected again")
	}
}

// findKeeperAgain finds the keeper once it was lost, nil if there is none that answers.
func (d keeperFeed) findKeeperAgain(ctx context.Context) *handover.Keeping {
	ctx, cancel := context.WithTimeout(ctx, keeperTime)
	defer cancel()
	keeper, _ := handover.FindKeeper(ctx, d.Keeper.path, d.Keeper.own, d.Keeper.carries)
	return keeper
}

// keepWith gives one keeper all that is open, and then what changes, until ctx ends or the keeper is gone.
func (d keeperFeed) keepWith(ctx context.Context, keeper *handover.Keeping) error {
	k := d.Keeper
	gone := make(chan error, 1)
	go func() { gone <- keeper.Wait() }() // until the keeper is closed here
	var err error
	again := !k.gave
	if again {
		k.pipes.begin()
		err = keeper.Keep(handover.Kept{Memory: true}, k.memory.File())
	}
	for _, s := range d.Listeners.Fronts().Sockets() {
		k.SocketChanged(s.Name, s.At)
	}
	scan := time.NewTicker(keepPeriod)
	defer scan.Stop()
	for ; err == nil; again = false {
		if err = d.flush(keeper); err != nil {
			break
		}
		d.Core.Moving().Keep(keptAge, again, d.roomFor(keeper), func(some []*splice.Kept) {
			if err == nil {
				err = d.keepConns(keeper, some)
			}
			for _, c := range some {
				closeBoth([2]int(c.Files))
			}
		})
		if err == nil {
			err = keeper.Ping()
		}
		k.upToDate.Store(err == nil && k.hasAllSockets())
		for next := false; !next && err == nil; {
			select {
			case <-ctx.Done():
				return keeper.Bye() // what ends from now on ends here
			case err = <-gone:
			case <-scan.C:
				next = true
			case <-k.due:
				_ = backoff.Sleep(ctx, tellPause)
				err = d.flush(keeper)
			}
		}
	}
	return err
}

// keepConns gives the keeper connections. It logs, once, that there are some that it cannot get.
func (d keeperFeed) keepConns(keeper *handover.Keeping, all []*splice.Kept) error {
	k := d.Keeper
	large, err := keeper.KeepConns(all)
	if large > 0 && k.large.Add(uint64(large)) == uint64(large) {
		d.Log.Warnf("Cannot pass %d connections to the keeper: they do not fit into a message "+
			"(net.core.wmem_max), and a crash closes them; see portald_unkept_connections_total", large)
	}
	return err
}

// predecessor may still have what is about to be this daemon's.
func (d keeperFeed) roomFor(keeper *handover.Keeping) int {
	k := d.Keeper
	n := (keeper.Room() - keepReserve) / 2
	if n > 0 {
		k.full = 0
	} else if k.full++; k.full == fullScans {
		d.Log.Warn("The keeper is at its limit of open descriptors: a crash closes the connections that it does " +
			"not hold; raise the limit (LimitNOFILE of systemd, that of the container runtime)")
	}
	return n
}

// find no room before that is logged.
const (
	keepReserve = 128
	fullScans   = 20
)

// flush tells the keeper of all that has changed.
func (d keeperFeed) flush(keeper *handover.Keeping) error {
	k := d.Keeper
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

// keepSockets gives the keeper the open ones of these sockets, and takes back the others. Those for which there is no
// descriptor now come with the next look at connections.
func (d keeperFeed) keepSockets(keeper *handover.Keeping, changed []handover.Socket) error {
	for some := range slices.Chunk(changed, pairsAtOnce) {
		var open, closed []handover.Socket
		var files []int
		for _, at := range some {
			switch file, err := duplicateOf(d.Core, at); {
			case err == nil:
				open, files = append(open, at), append(files, file)
			case errors.Is(err, errNotOpen):
				closed = append(closed, at)
			default:
				d.keepLater(at, err)
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

// keepLater has a socket passed on that cannot be now, and logs that, once.
func (d keeperFeed) keepLater(s handover.Socket, why error) {
	if first := d.Keeper.lacks(s); first {
		d.Log.WithError(why).Warn("Cannot pass listeners to the keeper yet: a crash now would have their clients refused")
	}
}

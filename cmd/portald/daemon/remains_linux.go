package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/portald/portald/proxy/handover"
	"github.com/portald/portald/proxy/splice/epoll"
)

// goOn begins where there is no predecessor to take over from: with what a keeper holds of one that has died, or anew.
func (d *daemon) goOn(ctx context.Context) {
	d.heritage.other.Store(false)
	if d.keeping == nil {
		d.heritage.begin()
		return
	}
	began := time.Now()
	remains := d.claim()
	if remains == nil {
		d.heritage.begin()
		return
	}
	d.log.Infof("The last portald has died: a keeper holds %d connections and %d listeners of it", len(remains.Conns),
		len(remains.Sockets))
	d.heritage.add(&handover.Estate{Sockets: remains.Sockets, Files: remains.Files})
	close(d.heritage.begun)
	d.path.core.SkipIDs(newestID(remains) + idGap)
	select { // connections go on without Services too, if the API server does not answer
	case <-d.reconciler.resyncs.ready:
	case <-time.After(remainsTime):
	case <-ctx.Done():
	}
	counts := d.restore(remains, nil)
	select {
	case <-d.reconciler.resyncs.ready: // until then sockets are not taken
	case <-ctx.Done():
	}
	d.path.listeners.Resume()
	d.heritage.serve()
	d.log.WithField("took", time.Since(began).Round(time.Millisecond)).Info(counts)
}

// claim returns what the keeper holds of a daemon that has died, nil if that is nothing.
func (d *daemon) claim() *handover.Remains {
	remains, err := d.keeping.found.Claim()
	if err != nil {
		d.log.WithError(err).Warn("What the keeper holds of the last portald is lost")
	}
	return remains
}

// remainsTime is how long connections wait for the first sync after a crash.
const remainsTime = 3 * time.Second

func newestID(r *handover.Remains) (id uint64) {
	for _, c := range r.Conns {
		id = max(id, c.State.ID)
	}
	return id
}

// restore goes on with the connections of a daemon that has died for which it can be told what was written, and resets
// the others. Those with the ids of taken are here already.
func (d *daemon) restore(r *handover.Remains, taken map[uint64]bool) (counts restored) {
	var memory *epoll.Memory
	if r.Memory >= 0 {
		var err error
		if memory, err = epoll.OpenMemory(r.Memory); err != nil {
			d.log.WithError(err).Warn("The memory of the last portald cannot be read")
		}
	}
	restorer := d.path.core.Restorer(d.path.listeners.Front)
	for _, c := range r.Conns {
		files, err := c.Files[:], epoll.ErrNoProof
		if taken[c.State.ID] {
			closeBoth(c.Files)
			continue
		}
		if memory != nil {
			files, err = memory.Recover(c.State, c.Slot, files, r.Pipes)
		}
		switch {
		case err == nil:
			counts.live++
			restorer.Conn(c.State, files)
		case errors.Is(err, epoll.ErrEnded):
			counts.ended++
			epoll.Abort(c.Files[:]...)
		default:
			counts.lost++
			d.log.WithError(err).WithField("id", c.State.ID).Debug("A connection is reset")
			epoll.Abort(c.Files[:]...)
		}
	}
	restorer.Done()
	for _, pair := range r.Pipes {
		closeBoth(pair)
	}
	if memory != nil {
		memory.Close()
	}
	d.telemetry.metrics.Recovered(counts.live, counts.ended, counts.lost)
	return counts
}

// restored counts the connections of a daemon that has died.
type restored struct{ live, ended, lost int }

func (c restored) String() string {
	return fmt.Sprintf("%d connections of the portald that died go on, %d had ended, %d are reset",
		c.live, c.ended, c.lost)
}

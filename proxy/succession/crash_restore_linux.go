package succession

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/epoll"
	"github.com/portald/portald/proxy/succession/handover"
)

// recovery goes on with what a keeper has of daemons that have died.
type recovery struct {
	*Options
	feed keeperFeed
}

// begin begins where there is no predecessor to take over from: with the connections that a keeper has of one that has
// died, or with none.
func (d recovery) begin(ctx context.Context) {
	d.State.other.Store(false)
	began := time.Now()
	left, _ := d.claim("")
	if left == nil {
		d.State.Begin()
		return
	}
	listeners := left.listeners()
	d.Log.Infof("The last portald died: the keeper holds its %d connections and %d listeners", len(left.conns),
		len(listeners.Sockets))
	d.State.add(listeners)
	close(d.State.rulesAllowed)
	d.Core.Moving().SkipIDs(left.newestID() + idGap)
	select { // connections go on without Services too, if the API server does not answer
	case <-d.Ready:
	case <-time.After(remainsTime):
	case <-ctx.Done():
	}
	counts := d.restore(left, nil)
	select {
	case <-d.Ready: // until then sockets are not taken
	case <-ctx.Done():
	}
	d.Listeners.Fronts().Resume()
	d.State.serve()
	d.Changes.Add(changes.Change{Kind: changes.DaemonTookOver, What: counts.String()})
	d.Log.WithField("took", time.Since(began).Round(time.Millisecond)).Info(counts)
}

// remainsTime is how long connections wait for the first sync after a crash.
const remainsTime = 3 * time.Second

// claim returns what the keeper keeps of daemons that have died, nil if that is nothing, or cannot be claimed. Dead is
// the Instance of one that is known to have died, or empty.
func (d recovery) claim(dead string) (*remains, error) {
	if d.Keeper == nil || d.Keeper.initial == nil {
		return nil, nil
	}
	left := &remains{}
	for {
		r, of, err := d.Keeper.initial.Claim(dead)
		if err != nil {
			d.Log.WithError(err).Warn("Cannot claim the connections of the last portald from the keeper: they " +
				"are reset after a while")
			left.close()
			d.Keeper.lose()
			return nil, err
		}
		if r == nil {
			break
		}
		if err := left.add(r, of); err != nil {
			d.Log.WithError(err).Warn("Cannot read the memory of the last portald")
		}
	}
	if len(left.stores) == 0 {
		return nil, nil
	}
	left.sort()
	return left, nil
}

// restore goes on with the connections of daemons that have died for which it can be told what was written, and resets
// the others. Those with the ids of taken are here already.
//
// No byte of a connection moves before the keeper has got it from this daemon, and what the dead one has noted of it is
// marked as outdated: if this one dies too, one of the two is true at each moment.
func (d recovery) restore(left *remains, taken map[uint64]bool) (counts restored) {
	d.Keeper.carries = append(d.Keeper.carries, left.instances...)
	restorer := d.Core.Moving().Restorer(d.Listeners.Fronts().Find)
	err := d.Keeper.giveMemory()
	for some := range slices.Chunk(left.conns, d.Keeper.restoredAtOnce()) {
		for _, c := range some {
			state, files, err := left.recover(c, taken)
			switch {
			case err == nil:
				counts.live++
				restorer.Stand(state, files)
			case errors.Is(err, errTaken):
			case errors.Is(err, epoll.ErrFinished):
				counts.ended++
				epoll.Finish(files...)
			case errors.Is(err, epoll.ErrEnded):
				counts.ended++
				epoll.Abort(files...)
			default:
				counts.lost++
				d.Log.WithError(err).Debug("Connection reset")
				epoll.Abort(files...)
			}
		}
		restorer.KeepStanding(func(all []*splice.Kept) (kept bool) {
			kept, err = d.giveRestored(all, err)
			left.giveAway(some)
			for i, gone := range left.settled(some) {
				if err == nil {
					err = d.Keeper.initial.Settled(i, gone.Slots, gone.Pipes)
				}
			}
			return kept
		})
	}
	restorer.Done()
	if err == nil {
		err = d.Keeper.initial.AllSettled()
	}
	for _, s := range left.sockets {
		d.Keeper.SocketChanged(s.Name, s.Address) // it is to keep only those that are open here
	}
	if err != nil {
		d.Log.WithError(err).Warn("The keeper does not hold this portald's connections yet: until it does, a " +
			"crash closes them")
		d.Keeper.lose()
	}
	left.close()
	d.Metrics.Recovered(counts.live, counts.ended, counts.lost)
	return counts
}

// giveRestored gives the keeper connections that stand still, with the pipes that they have, unless there was an error
// before.
func (d recovery) giveRestored(all []*splice.Kept, before error) (kept bool, err error) {
	defer func() {
		for _, k := range all {
			closeFiles(k.Files)
		}
	}()
	if err = before; err == nil {
		err = d.feed.flush(d.Keeper.initial)
	}
	if err == nil {
		err = d.feed.keepConns(d.Keeper.initial, all)
	}
	return err == nil, unlessFull(err)
}

// restored counts the connections of daemons that have died.
type restored struct{ live, ended, lost int }

func (c restored) String() string {
	return fmt.Sprintf("%d connections of the portald that died go on, %d had ended, %d are reset",
		c.live, c.ended, c.lost)
}

// listeners are the sockets that listen, which are the receiver's. One that its daemon was closing when it died does
// not, and nothing arrives there.
func (r *remains) listeners() *handover.Inheritance {
	e := &handover.Inheritance{}
	for n, at := range r.sockets {
		if fd := r.files[n]; platform.Listens(fd) {
			e.Sockets, e.Files = append(e.Sockets, at), append(e.Files, fd)
		} else {
			closeFiles([]int{fd})
		}
	}
	r.files = nil
	return e
}

package succession

import (
	"context"
	"os"
	"time"

	"github.com/portald/portald/platform/systemd"
	"github.com/portald/portald/proxy/succession/handover"
)

// storeForNext leaves all that this daemon carries with systemd, if that is about to start the next one. False: it has
// to drain.
func (d predecessor) storeForNext(ctx context.Context) bool {
	if !systemd.Runs() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	d.systemd.tell(systemd.Notify("STOPPING=1", "STATUS=Stops"))
	again, err := systemd.Restarts(ctx)
	if err != nil {
		d.Log.WithError(err).Warn("Open connections will be closed, also if this is a restart")
	}
	if !again {
		d.State.abandon()
		return false
	}
	select {
	case d.State.handing <- struct{}{}:
		defer d.State.EndTurn()
	case <-ctx.Done(): // a successor takes too long
		return false
	}
	if d.State.mayWriteRules() {
		d.State.WhenServing(ctx) // what was taken is taken as a whole
	}
	if d.State.other.Load() {
		return true // another daemon has it, or systemd still
	}
	if !isClosed(d.Ready) || !d.Core.Moving().CanMove() {
		return false
	}
	began := time.Now()
	left, err := d.store(ctx)
	if err != nil {
		d.Log.WithError(err).Warn("Open connections will be closed: cannot leave them with systemd")
		d.systemd.forgetStored()
		return false
	}
	d.Log.WithField("took", time.Since(began).Round(time.Millisecond)).
		Infof("Left listeners and connections with systemd for the next portald, except %d connections", left)
	d.State.other.Store(true)
	d.State.awaited.Store(true)
	return true
}

// store fills a store that systemd has.
func (d predecessor) store(ctx context.Context) (left int64, err error) {
	queue, err := handover.NewStored()
	if err != nil {
		return 0, err
	}
	defer queue.Close()
	s, err := queue.Successor(d.Identity)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	if err := systemd.Store(ctx, map[string]*os.File{storeOut: queue.Out, storeIn: queue.In}); err != nil {
		return 0, err
	}
	return d.giveTo(ctx, s)
}

// storeTime bounds that: systemd kills what takes longer than TimeoutStopSec to stop.
const storeTime = 40 * time.Second

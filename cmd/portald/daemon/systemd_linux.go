package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/portald/portald/platform/systemd"
	"github.com/portald/portald/proxy/handover"
)

// The names of what systemd stores between two runs: the ends of a handover.Deposit.
const (
	storeOut = "portald-out"
	storeIn  = "portald-in"
)

// stored returns what the last run has left with systemd, nil for nothing.
func stored() *handover.Deposit {
	passed := systemd.Passed()
	s := &handover.Deposit{Out: passed[storeOut], In: passed[storeIn]}
	for name, f := range passed {
		if s.Out == nil || s.In == nil || f != s.Out && f != s.In {
			_ = f.Close() // no run of this program has left it
			delete(passed, name)
		}
	}
	if len(passed) == 0 {
		return nil
	}
	return s
}

// takeStored goes on with what the last run has left. It is untouched, and stays with systemd, until Services are
// known. Lost: nothing of it can be gone on with.
func (d *daemon) takeStored(ctx context.Context, s *handover.Deposit) (lost bool, err error) {
	d.heritage.stored.Store(true)
	d.log.Info("The last portald left its connections with systemd: they continue once Services are known")
	if known, err := d.awaitServices(ctx); !known {
		return false, errors.Join(err, s.Close())
	}
	p, err := s.Predecessor(d.identity())
	d.forgetStored()
	if err == nil {
		var again bool
		if again, err = d.takeOverFrom(ctx, p); !again {
			return false, err
		}
	}
	d.log.WithError(err).Warn("Cannot restore connections that the last portald left with systemd: they are " +
		"closed")
	return true, nil
}

// forgetStored has systemd pass it to no other run.
func (d *daemon) forgetStored() { d.tell(systemd.Forget(storeOut, storeIn)) }

// leave leaves all that this daemon carries with systemd, if that is about to start the next one. False: it has to
// drain.
func (d *daemon) leave(ctx context.Context) bool {
	if !systemd.Runs() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	d.tell(systemd.Notify("STOPPING=1", "STATUS=Stops"))
	again, err := systemd.Restarts(ctx)
	if err != nil {
		d.log.WithError(err).Warn("Open connections will be closed, also if this is a restart")
	}
	if !again {
		d.heritage.abandon()
		return false
	}
	select {
	case d.heritage.handing <- struct{}{}:
		defer d.heritage.endTurn()
	case <-ctx.Done(): // a successor takes too long
		return false
	}
	if d.heritage.hasBegun() {
		d.heritage.whenServing(ctx) // what was taken is taken as a whole
	}
	if d.heritage.other.Load() {
		return true // another daemon has it, or systemd still
	}
	if !d.reconciler.resyncs.isReady() || !d.path.core.CanMove() {
		return false
	}
	began := time.Now()
	left, err := d.leaveAll(ctx)
	if err != nil {
		d.log.WithError(err).Warn("Open connections will be closed: cannot leave them with systemd")
		d.forgetStored()
		return false
	}
	d.log.WithField("took", time.Since(began).Round(time.Millisecond)).
		Infof("Left listeners and connections with systemd for the next portald, except %d connections", left)
	d.heritage.other.Store(true)
	d.heritage.awaited.Store(true)
	return true
}

// leaveAll fills a store that systemd has.
func (d *daemon) leaveAll(ctx context.Context) (left int64, err error) {
	store, err := handover.NewDeposit()
	if err != nil {
		return 0, err
	}
	defer store.Close()
	s, err := store.Successor(d.identity())
	if err != nil {
		return 0, err
	}
	defer s.Close()
	if err := systemd.Store(ctx, map[string]*os.File{storeOut: store.Out, storeIn: store.In}); err != nil {
		return 0, err
	}
	return d.giveTo(ctx, s)
}

// leaveTime bounds leaving: systemd kills what takes longer than TimeoutStopSec to stop.
const leaveTime = 40 * time.Second

// announce tells systemd, and who has started this daemon, when it serves the node.
func (d *daemon) announce(ctx context.Context) error {
	d.status("Waiting for Services")
	for _, done := range []<-chan struct{}{d.heritage.serves, d.reconciler.resyncs.ready} {
		select {
		case <-ctx.Done():
			return nil
		case <-done:
		}
	}
	// The process id is known to systemd unless this daemon has taken over at a reload.
	d.tell(systemd.Notify("READY=1", fmt.Sprintf("MAINPID=%d", os.Getpid()), "STATUS=Serves the node"))
	if d.life.Serving != nil {
		d.life.Serving()
	}
	return nil
}

// passOn has systemd watch a successor in place of this process, which may then end.
func (d *daemon) passOn(s *handover.Successor) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return
	}
	if next, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", s.PID)); err == nil && string(own) == string(next) {
		d.tell(systemd.Notify(fmt.Sprintf("MAINPID=%d", s.PID)))
	}
}

// status has systemctl status show a line.
func (d *daemon) status(line string) { d.tell(systemd.Notify("STATUS=" + line)) }

// tell logs that systemd could not be told something: nothing depends on it that cannot be done without.
func (d *daemon) tell(err error) {
	if err != nil {
		d.log.WithError(err).Warn("Cannot notify systemd")
	}
}

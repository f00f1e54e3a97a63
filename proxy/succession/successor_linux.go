package succession

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/succession/handover"
	"github.com/portald/portald/proxy/userspace"
)

// successor takes the place of the daemon that serves the node, or of one that has ended.
type successor struct {
	*Options
	recovery recovery
	systemd  notifier
}

// errCannotMove is why a daemon that is to take over ends.
var errCannotMove = errors.New("to take over takes a handOverSocket and the epoll engine")

// takeOverAgain is how long to wait before another try when the predecessor refuses.
const takeOverAgain = time.Second

// takeOver finds the daemon that serves this node, and takes its place: see package handover. Without one, or if that
// one does not answer, this daemon begins at once. One that is told to end before changes nothing.
func (d successor) takeOver(ctx context.Context) error {
	path := d.Socket
	left := stored()
	if path == "" || !d.Core.Moving().CanMove() {
		if d.Required {
			return errCannotMove
		}
		if left != nil {
			_ = left.Close() // what was left has ended, whatever this returns
			d.systemd.forgetStored()
		}
		d.recovery.begin(ctx)
		return nil
	}
	if left != nil {
		if lost, err := d.takeStored(ctx, left); !lost {
			return err
		}
	}
	for began := time.Now(); ctx.Err() == nil; {
		p, err := handover.Dial(ctx, path, d.Identity)
		if err != nil {
			if alone, err := d.isAlone(ctx, path, began, err); err != nil || alone {
				return err
			}
			continue
		}
		d.Log.Infof("portald %s (process %d) serves this node: taking over once Services are known", p.Version, p.PID)
		again, err := d.takeOverFrom(ctx, p)
		if again = again && !d.Required; !again {
			return err
		}
		d.Log.WithError(err).Warn("The running portald does not hand over: trying again")
		_ = backoff.Sleep(ctx, takeOverAgain)
		began = time.Now()
	}
	return nil
}

// isAlone begins, unless another daemon is about to serve this node or to end: then it waits a little. That none hands
// over has cause, and was so since began.
func (d successor) isAlone(ctx context.Context, path string, began time.Time, cause error) (alone bool, err error) {
	switch {
	case d.Required:
		return false, cause
	case ctx.Err() != nil:
		return false, nil
	case errors.Is(cause, os.ErrDeadlineExceeded):
		d.Log.WithError(cause).Warn("The running portald stands still: taking its place")
		if err := d.oust(path); err != nil {
			d.Log.WithError(err).Warn("Cannot notify the other portald that this one takes its place")
		}
		d.State.Begin()
		return true, nil
	case !errors.Is(cause, handover.ErrNone):
		d.Log.WithError(cause).Warn("The running portald does not hand over: this one begins beside it")
		d.State.Begin()
		return true, nil
	}
	lock, err := handover.TryLock(path)
	switch {
	case err == nil:
		d.State.locked(lock)
	case !errors.Is(err, handover.ErrHeld):
		d.Log.WithError(err).Warn("Cannot check for another portald: starting anyway")
	case time.Since(began) < silenceTime:
		_ = backoff.Sleep(ctx, lockPoll)
		return false, nil
	default:
		if err := d.oust(path); err != nil { // it may serve, and not be able to listen for the same reason
			d.Log.WithError(err).Warnf("The running portald has not answered for %s, and cannot be notified "+
				"that this one takes its place: trying again every %s", silenceTime, listenAgain)
			_ = backoff.Sleep(ctx, listenAgain)
			return false, nil
		}
		d.Log.Warnf("The running portald has not answered for %s: taking its place", silenceTime)
	}
	d.recovery.begin(ctx)
	return true, nil
}

// oust takes the lock of the node from a daemon that does not answer, which leaves the node to this one.
func (d successor) oust(path string) error {
	lock, err := handover.Oust(path)
	if err == nil {
		d.State.locked(lock)
	}
	return err
}

// silenceTime is how long another daemon may have the lock of the node and not answer: it is starting, or cleans up at
// its end. lockPoll is the time between two attempts.
const (
	silenceTime = 15 * time.Second
	lockPoll    = 20 * time.Millisecond
)

// takeOverFrom takes the place of a predecessor. Again: it has refused, or ended, and nothing is changed.
func (d successor) takeOverFrom(ctx context.Context, p *handover.Predecessor) (again bool, err error) {
	defer p.Close()
	if known, err := d.awaitServices(ctx); !known {
		return false, err
	}
	began := time.Now()
	estate, err := p.Begin(d.room())
	if err != nil {
		return true, err
	}
	d.State.add(estate)
	d.Core.Moving().SkipIDs(estate.LastID + idGap)
	stop := p.Working()
	close(d.State.rulesAllowed)
	select {
	case <-ctx.Done():
	case <-d.Ready:
	}
	if stop(); ctx.Err() != nil {
		return false, nil
	}
	d.drainAgain(estate.Drained)
	return false, d.takeConnections(p, began)
}

// awaitServices waits until Services are known, which one that is started as a successor has only so much time for.
func (d successor) awaitServices(ctx context.Context) (known bool, err error) {
	var late <-chan time.Time
	if d.Required {
		late = time.After(servicesTime)
	}
	select {
	case <-ctx.Done():
		return false, nil
	case <-late:
		return false, fmt.Errorf("the Services are not known after %s", servicesTime)
	case <-d.Synced:
		return true, nil
	}
}

// servicesTime is how long the API server may take to list Services.
const servicesTime = time.Minute

// idGap is how many records a predecessor may make while it is taken over.
const idGap = 1 << 20

// room is how many descriptors this process has room for.
func (d successor) room() int {
	limits := d.Core.Stats().Limits
	if limits.Descriptors == 0 {
		return 1 << 30
	}
	return int(limits.Descriptors)
}

// takeConnections goes on with all that the predecessor carries.
func (d successor) takeConnections(p *handover.Predecessor, began time.Time) error {
	restorer := d.Core.Moving().Restorer(d.Listeners.Fronts().Find)
	conns, sessions := map[uint64]bool{}, 0
	var kept *remains // of the predecessor, if it dies
	var noticed []changes.Change
	left, err := p.Serving(d.State.Inherited.taken(), handover.Taker{
		Conn: func(s *splice.SavedConn, files []int) {
			conns[s.ID] = true
			restorer.Conn(s, files)
		},
		Session: func(at netip.AddrPort, s *splice.SavedSession, file int) bool {
			sessions++
			return restorer.Session(at, s, file)
		},
		Batch: func(b *handover.Batch) {
			d.takeRest(b)
			noticed = append(noticed, b.Changes...)
			noticed = noticed[max(0, len(noticed)-changes.DefaultSize):]
		},
		Died: func(b *handover.Batch) bool { // it may not have noted yet that it has passed these on
			left, err := d.recovery.claim(p.Instance)
			if kept = left; kept != nil {
				kept.giveAwayTaken(idsOf(b))
			}
			return err == nil
		},
	})
	restorer.Done()
	d.Changes.Inherit(noticed)
	log := d.Log.WithField("took", time.Since(began).Round(time.Millisecond))
	switch {
	case errors.Is(err, handover.ErrDied):
		log.WithError(err).Warnf("The predecessor ended: took over %d connections and %d UDP sessions",
			len(conns), sessions)
		if kept == nil {
			kept, _ = d.recovery.claim(p.Instance)
		}
	case err != nil:
		return fmt.Errorf("the predecessor goes on, but for %d connections: %w", len(conns), err)
	default:
		log.Infof("Took over from portald %s: %d connections, %d UDP sessions", p.Version, len(conns), sessions)
	}
	text := fmt.Sprintf("took over from %s: %d connections, %d UDP sessions", p.Identity, len(conns), sessions)
	if left > 0 {
		text += fmt.Sprintf("; %d connections stay there until they end", left)
	}
	d.Changes.Add(changes.Change{Kind: changes.DaemonTookOver, What: text})
	if kept != nil {
		d.Log.Info(d.recovery.restore(kept, conns))
	}
	d.Metrics.TookOver(len(conns), int(left))
	if left > 0 {
		d.Log.Warnf("%d connections stay with the predecessor until they end", left)
	}
	d.Listeners.Fronts().Resume() // UDP sockets whose sessions did not come
	d.State.replaces.Store(true)
	d.State.serve()
	return nil
}

func idsOf(b *handover.Batch) map[uint64]bool {
	ids := map[uint64]bool{}
	for _, c := range b.Conns {
		ids[c.ID] = true
	}
	return ids
}

// takeRest takes what a batch brings beside connections and sessions.
func (d successor) takeRest(b *handover.Batch) {
	for _, r := range b.Records {
		d.Records.Observe(r)
	}
	for _, t := range b.Turns {
		d.Listeners.Fronts().RestoreTurn(userspace.Turn(t))
	}
	if r := b.Resume; r != nil {
		if f := d.Listeners.Fronts().Find(r.Name, inet.FamilyOf(r.Address.Addr())); f != nil {
			if s := splice.SessionsAt(f, r.Address); s != nil {
				s.Resume()
			}
		}
	}
}

// drainAgain leaves the endpoints alone that the predecessor did.
func (d successor) drainAgain(all []handover.Drained) {
	for _, drained := range all {
		for _, p := range d.Store.Ports() {
			for _, e := range p.Endpoints {
				if p.Name == drained.Name && e.Addr == drained.Endpoint {
					if err := d.Listeners.Endpoints().Drain(p.Name, e, drained.Forced); err != nil {
						d.Log.WithError(err).Warnf("%s of %s is undrained", e.Addr, p.Name.Label())
					}
				}
			}
		}
	}
}

// takeStored goes on with what the last run has left. It is untouched, and stays with systemd, until Services are
// known. Lost: nothing of it can be gone on with.
func (d successor) takeStored(ctx context.Context, s *handover.Stored) (lost bool, err error) {
	d.State.stored.Store(true)
	d.Log.Info("The last portald left its connections with systemd: they continue once Services are known")
	if known, err := d.awaitServices(ctx); !known {
		return false, errors.Join(err, s.Close())
	}
	p, err := s.Predecessor(d.Identity)
	d.systemd.forgetStored()
	if err == nil {
		var again bool
		if again, err = d.takeOverFrom(ctx, p); !again {
			return false, err
		}
	}
	d.Log.WithError(err).Warn("Cannot restore connections that the last portald left with systemd: they are " +
		"closed")
	return true, nil
}

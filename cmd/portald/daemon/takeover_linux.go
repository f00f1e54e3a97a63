package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/handover"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/userspace"
)

// errCannotMove is why a daemon that is to take over ends.
var errCannotMove = errors.New("to take over takes a handOverSocket and the epoll engine")

// takeOverAgain is how long to wait before another try when the predecessor refuses.
const takeOverAgain = time.Second

// takeOver finds the daemon that serves this node, and takes its place: see package handover. Without one, or if that
// one does not answer, this daemon begins at once. One that is told to end before changes nothing.
func (d *daemon) takeOver(ctx context.Context) error {
	path := d.rules.cfg.HandOverSocket
	left := stored()
	if path == "" || !d.path.core.CanMove() {
		if d.life.Successor {
			return errCannotMove
		}
		if left != nil {
			_ = left.Close() // what was left has ended, whatever this returns
			d.forgetStored()
		}
		d.goOn(ctx)
		return nil
	}
	if left != nil {
		if lost, err := d.takeStored(ctx, left); !lost {
			return err
		}
	}
	for began := time.Now(); ctx.Err() == nil; {
		p, err := handover.Dial(ctx, path, d.identity())
		if err != nil {
			if alone, err := d.isAlone(ctx, path, began, err); err != nil || alone {
				return err
			}
			continue
		}
		d.log.Infof("portald %s (process %d) serves this node: taking over once Services are known", p.Version, p.PID)
		again, err := d.takeOverFrom(ctx, p)
		if again = again && !d.life.Successor; !again {
			return err
		}
		d.log.WithError(err).Warn("The running portald does not hand over: trying again")
		parts.Pause(ctx, takeOverAgain)
		began = time.Now()
	}
	return nil
}

// isAlone begins, unless another daemon is about to serve this node or to end: then it waits a little. That none hands
// over has cause, and was so since began.
func (d *daemon) isAlone(ctx context.Context, path string, began time.Time, cause error) (alone bool, err error) {
	switch {
	case d.life.Successor:
		return false, cause
	case ctx.Err() != nil:
		return false, nil
	case errors.Is(cause, os.ErrDeadlineExceeded):
		d.log.WithError(cause).Warn("The running portald stands still: taking its place")
		if err := d.oust(path); err != nil {
			d.log.WithError(err).Warn("Cannot notify the other portald that this one takes its place")
		}
		d.heritage.begin()
		return true, nil
	case !errors.Is(cause, handover.ErrNone):
		d.log.WithError(cause).Warn("The running portald does not hand over: this one begins beside it")
		d.heritage.begin()
		return true, nil
	}
	lock, err := handover.TryLock(path)
	switch {
	case err == nil:
		d.heritage.locked(lock)
	case !errors.Is(err, handover.ErrHeld):
		d.log.WithError(err).Warn("Cannot check for another portald: starting anyway")
	case time.Since(began) < silenceTime:
		parts.Pause(ctx, lookAgain)
		return false, nil
	default:
		if err := d.oust(path); err != nil { // it may serve, and not be able to listen for the same reason
			d.log.WithError(err).Warnf("The running portald has not answered for %s, and cannot be notified "+
				"that this one takes its place: trying again every %s", silenceTime, listenAgain)
			parts.Pause(ctx, listenAgain)
			return false, nil
		}
		d.log.Warnf("The running portald has not answered for %s: taking its place", silenceTime)
	}
	d.goOn(ctx)
	return true, nil
}

// oust takes the lock of the node from a daemon that does not answer, which leaves the node to this one.
func (d *daemon) oust(path string) error {
	lock, err := handover.Oust(path)
	if err == nil {
		d.heritage.locked(lock)
	}
	return err
}

// silenceTime is how long another daemon may have the lock of the node and not answer: it is starting, or cleans up at
// its end. lookAgain is how often it is asked.
const (
	silenceTime = 15 * time.Second
	lookAgain   = 20 * time.Millisecond
)

// takeOverFrom takes the place of a predecessor. Again: it has refused, or ended, and nothing is changed.
func (d *daemon) takeOverFrom(ctx context.Context, p *handover.Predecessor) (again bool, err error) {
	defer p.Close()
	if known, err := d.awaitServices(ctx); !known {
		return false, err
	}
	began := time.Now()
	estate, err := p.Begin(d.room())
	if err != nil {
		return true, err
	}
	d.heritage.add(estate)
	d.path.core.SkipIDs(estate.LastID + idGap)
	stop := p.Working()
	close(d.heritage.begun)
	select {
	case <-ctx.Done():
	case <-d.reconciler.resyncs.ready:
	}
	if stop(); ctx.Err() != nil {
		return false, nil
	}
	d.drainAgain(estate.Drained)
	return false, d.takeConnections(p, began)
}

// awaitServices waits until Services are known, which one that is started as a successor has only so much time for.
func (d *daemon) awaitServices(ctx context.Context) (known bool, err error) {
	var late <-chan time.Time
	if d.life.Successor {
		late = time.After(servicesTime)
	}
	select {
	case <-ctx.Done():
		return false, nil
	case <-late:
		return false, fmt.Errorf("the Services are not known after %s", servicesTime)
	case <-d.source.synced:
		return true, nil
	}
}

// servicesTime is how long the API server may take to list Services.
const servicesTime = time.Minute

// idGap is how many records a predecessor may make while it is taken over.
const idGap = 1 << 20

// room is how many descriptors this process has room for.
func (d *daemon) room() int {
	limits := d.path.core.Stats().Limits
	if limits.Descriptors == 0 {
		return 1 << 30
	}
	return int(limits.Descriptors)
}

// takeConnections goes on with all that the predecessor carries.
func (d *daemon) takeConnections(p *handover.Predecessor, began time.Time) error {
	restorer := d.path.core.Restorer(d.path.listeners.Fronts().Find)
	conns, sessions := map[uint64]bool{}, 0
	var kept *remains // of the predecessor, if it dies
	left, err := p.Serving(d.heritage.taken(), handover.Taker{
		Conn: func(s *splice.SavedConn, files []int) {
			conns[s.ID] = true
			restorer.Conn(s, files)
		},
		Session: func(at netip.AddrPort, s *splice.SavedSession, file int) bool {
			sessions++
			return restorer.Session(at, s, file)
		},
		Batch: func(b *handover.Batch) { d.takeRest(b) },
		Died: func(b *handover.Batch) bool { // it may not have noted yet that it has passed these on
			left, err := d.claim(p.Instance)
			if kept = left; kept != nil {
				kept.giveAwayTaken(idsOf(b))
			}
			return err == nil
		},
	})
	restorer.Done()
	log := d.log.WithField("took", time.Since(began).Round(time.Millisecond))
	switch {
	case errors.Is(err, handover.ErrDied):
		log.WithError(err).Warnf("The predecessor ended: took over %d connections and %d UDP sessions",
			len(conns), sessions)
		if kept == nil {
			kept, _ = d.claim(p.Instance)
		}
	case err != nil:
		return fmt.Errorf("the predecessor goes on, but for %d connections: %w", len(conns), err)
	default:
		log.Infof("Took over from portald %s: %d connections, %d UDP sessions", p.Version, len(conns), sessions)
	}
	if kept != nil {
		d.log.Info(d.restore(kept, conns))
	}
	d.telemetry.metrics.TookOver(len(conns), int(left))
	if left > 0 {
		d.log.Warnf("%d connections stay with the predecessor until they end", left)
	}
	d.path.listeners.Fronts().Resume() // UDP sockets whose sessions did not come
	d.heritage.replaces.Store(true)
	d.heritage.serve()
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
func (d *daemon) takeRest(b *handover.Batch) {
	for _, r := range b.Records {
		d.telemetry.stream.Observe(r)
	}
	for _, t := range b.Turns {
		d.path.listeners.Fronts().RestoreTurn(userspace.Turn(t))
	}
	if r := b.Resume; r != nil {
		if f := d.path.listeners.Fronts().Find(r.Name, inet.FamilyOf(r.Address.Addr())); f != nil {
			if s := f.SessionsAt(r.Address); s != nil {
				s.Resume()
			}
		}
	}
}

// drainAgain leaves the endpoints alone that the predecessor did.
func (d *daemon) drainAgain(all []handover.Drained) {
	for _, drained := range all {
		for _, p := range d.source.store.Ports() {
			for _, e := range p.Endpoints {
				if p.Name == drained.Name && e.Addr == drained.Endpoint {
					if err := d.path.listeners.Endpoints().Drain(p.Name, e, drained.Forced); err != nil {
						d.log.WithError(err).Warnf("%s of %s is undrained", e.Addr, p.Name.Label())
					}
				}
			}
		}
	}
}

// identity is who this daemon is, for those before and after it.
func (d *daemon) identity() handover.Identity {
	return handover.Identity{
		Installation: installation(d.rules.cfg), Version: d.version, PID: os.Getpid(), Instance: d.instance,
	}
}

// installation tells apart the portalds of a host: one takes over from another only where these are equal.
func installation(cfg *config.Config) string {
	from := "the API server"
	if len(cfg.Manifests) > 0 {
		from = "manifests"
	}
	return fmt.Sprintf("node %s in %s, Services of %s with the service proxy name %q",
		cfg.NodeName, platform.NetworkNamespace(), from, cfg.ServiceProxyName)
}

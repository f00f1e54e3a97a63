package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy"
)

// ownership is the dataplane of the reconcile loop for as long as this daemon is the one that serves the node. Another
// one begins beside it if it stands still for long, as while its cgroup is frozen: see handover.Oust. When it goes on,
// rules and listeners are the other's, and nothing is written here any more.
type ownership struct {
	*proxy.Stopwatch
	heritage *inheritance
	lost     chan struct{} // closed once the loop has noticed, and stands still
	once     sync.Once
}

func newOwnership(of *proxy.Stopwatch, heritage *inheritance) *ownership {
	return &ownership{Stopwatch: of, heritage: heritage, lost: make(chan struct{})}
}

// holds calls change unless the node is another daemon's. Then it returns when ctx ends.
func (o *ownership) holds(ctx context.Context, change func() error) error {
	if o.heritage.isOusted() {
		o.once.Do(func() { close(o.lost) })
		<-ctx.Done()
		return ctx.Err()
	}
	return change()
}

// Sync implements proxy.Dataplane.
func (o *ownership) Sync(ctx context.Context, changes []service.Change) error {
	return o.holds(ctx, func() error { return o.Stopwatch.Sync(ctx, changes) })
}

// Resync implements proxy.Dataplane.
func (o *ownership) Resync(ctx context.Context, ports []*service.Port) error {
	return o.holds(ctx, func() error { return o.Stopwatch.Resync(ctx, ports) })
}

// Audit implements proxy.Dataplane.
func (o *ownership) Audit(ctx context.Context) error {
	return o.holds(ctx, func() error { return o.Stopwatch.Audit(ctx) })
}

// Sweep implements proxy.Sweeper.
func (o *ownership) Sweep(ctx context.Context) (next time.Time, err error) {
	err = o.holds(ctx, func() error {
		next, err = o.Stopwatch.Sweep(ctx)
		return err
	})
	return next, err
}

// oustedEvery is how often a daemon looks whether another one has taken its place, when it writes nothing.
const oustedEvery = time.Second

// yieldIfOusted waits until another daemon has taken the place of this one, which stood still. Then this one serves
// what is open until it has ended, or until it is told to end, and leaves everything else to the other.
func (d *daemon) yieldIfOusted(ctx context.Context) error {
	if !d.heritage.whenServing(ctx) {
		return nil
	}
	tick := time.NewTicker(oustedEvery)
	defer tick.Stop()
	for !d.heritage.isOusted() {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	d.heritage.other.Store(true)
	d.reconciler.resyncs.request()
	select {
	case <-d.reconciler.owned.lost:
	case <-ctx.Done():
		return nil
	}
	d.log.Warnf("This portald stood still, and another one serves the node now: %d connections are served here "+
		"until they end, and nothing else", d.path.core.Stats().Connections)
	d.path.listeners.Close()
	d.servers.yield()
	d.path.core.Drain(ctx)
	d.end(errHandedOver)
	return nil
}

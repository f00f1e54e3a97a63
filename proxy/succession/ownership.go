package succession

import (
	"context"
	"sync"
	"time"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy"
)

// Ownership is the dataplane of the reconcile loop for as long as this daemon is the one that serves the node. Another
// one begins beside it if it stands still for long, as while its cgroup is frozen: see handover.Oust. When it goes on,
// rules and listeners are the other's, and nothing is written here any more.
type Ownership struct {
	*proxy.Stopwatch
	state *State
	lost  chan struct{} // closed once the loop has noticed and stands still, or has ended
	once  sync.Once
}

// NewOwnership wraps the dataplane of a daemon.
func NewOwnership(of *proxy.Stopwatch, state *State) *Ownership {
	return &Ownership{Stopwatch: of, state: state, lost: make(chan struct{})}
}

// ifOwner calls change unless another daemon owns the node. Then it returns when ctx ends.
func (o *Ownership) ifOwner(ctx context.Context, change func() error) error {
	if o.state.isOusted() {
		o.once.Do(func() { close(o.lost) })
		<-ctx.Done()
		return ctx.Err()
	}
	return change()
}

// Sync implements proxy.Dataplane.
func (o *Ownership) Sync(ctx context.Context, changes []service.Change) error {
	return o.ifOwner(ctx, func() error { return o.Stopwatch.Sync(ctx, changes) })
}

// Resync implements proxy.Dataplane.
func (o *Ownership) Resync(ctx context.Context, ports []*service.Port) error {
	return o.ifOwner(ctx, func() error { return o.Stopwatch.Resync(ctx, ports) })
}

// Audit implements proxy.Dataplane.
func (o *Ownership) Audit(ctx context.Context) error {
	return o.ifOwner(ctx, func() error { return o.Stopwatch.Audit(ctx) })
}

// Sweep implements proxy.Sweeper.
func (o *Ownership) Sweep(ctx context.Context) (next time.Time, err error) {
	err = o.ifOwner(ctx, func() error {
		next, err = o.Stopwatch.Sweep(ctx)
		return err
	})
	return next, err
}

// LoopEnded is called once the loop has ended, which cannot notice any more that another daemon owns the node. It looks
// whether one does, and returns that.
func (o *Ownership) LoopEnded() (lost bool) {
	lost = o.state.NoticeOusted()
	if o.state.isOusted() {
		o.once.Do(func() { close(o.lost) })
	}
	return lost
}

// Lost is closed once the loop has noticed that, and stands still, or has ended.
func (o *Ownership) Lost() <-chan struct{} { return o.lost }

// oustedEvery is how often a daemon looks whether another one has taken its place, when it writes nothing.
const oustedEvery = time.Second

// yieldIfOusted waits until another daemon has taken the place of this one, which stood still. Then this one serves
// what is open until it has ended, or until it is told to end, and leaves everything else to the other.
func (d *Options) yieldIfOusted(ctx context.Context) error {
	if !d.State.WhenServing(ctx) {
		return nil
	}
	tick := time.NewTicker(oustedEvery)
	defer tick.Stop()
	for !d.State.isOusted() {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	d.State.other.Store(true)
	d.Resync("another portald serves the node")
	select {
	case <-d.Lost:
	case <-ctx.Done():
		return nil
	}
	d.Log.Warnf("This portald stood still, and another one serves the node now: %d connections are served here "+
		"until they end, and nothing else", d.Core.Stats().Connections)
	d.Listeners.Close()
	d.Yield()
	d.Core.Drain(ctx)
	d.End(ErrHandedOver)
	return nil
}

// Package flows observes what the kernel carries, by conntrack: it makes records of flows of Services that have ended,
// and lists the open ones. It does not know how conntrack is read: see Options.Open and Options.List.
package flows

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// Events receives the changes of the conntrack table since it was opened. One goroutine uses it.
type Events interface {
	// Receive waits for the first event, at most that long, and calls each with the attributes of every flow that began
	// or ended, valid during the call. Lost is how many events were lost since the last call, because there was no room
	// in the socket's buffer.
	Receive(wait time.Duration, each func(begins bool, flow []byte)) (lost uint64, err error)
	// Filter leaves out what begins, and flows that ended as they should, or no longer so.
	Filter(onlyFailures bool) error
	Close() error
}

// Options of a Recorder.
type Options struct {
	Mode     service.Mode                              // of service ports that set none
	Policy   service.Policy                            // of service ports that set none
	Own      func(netip.Addr) bool                     // whether an address is this host's: NodePorts are served there
	Listener func(netip.AddrPort) bool                 // whether portals may lead there to a listener of the daemon
	WhoIs    func(netip.Addr) (service.Workload, bool) // which pod a client is; nil: that is not known
	NextID   func() uint64                             // of records
	Observe  func(*record.Record)                      // gets each record, and must not block
	Lost     func(events uint64)                       // that many ends of flows were lost: some may have been of Services
	Log      logrus.FieldLogger

	// Account has the kernel count packets and take times of flows from now on, and returns what undoes it. timed: it
	// takes times.
	Account func() (undo func(), timed bool)
	// Timeouts are the kernel's.
	Timeouts func() Timeouts
	// Open opens Events: of what ends, and if begins is set of what begins.
	Open func(begins bool) (Events, error)
	// List calls each with the attributes of every flow there is, valid during the call, until it returns false.
	List func(ctx context.Context, each func(flow []byte) bool) error
}

// Recorder makes records of connections that the kernel carried. While no service port wants any it costs nothing.
type Recorder struct {
	opts      Options
	index     *index
	changed   chan struct{} // holds one when demand may have changed
	recording atomic.Bool   // events are received
	timeouts  Timeouts
	flow      Flow
	began     beginnings
}

// New returns a Recorder, which records while Run runs.
func New(opts Options) *Recorder {
	return &Recorder{opts: opts, index: newIndex(opts.Mode, opts.Policy, opts.Own), changed: make(chan struct{}, 1)}
}

// Replace makes these service ports the ones that are served.
func (r *Recorder) Replace(ports []*service.Port) {
	r.index.replace(ports, time.Now())
	r.wake()
}

// Update applies changes of service ports.
func (r *Recorder) Update(changes []service.Change) {
	r.index.update(changes, time.Now())
	r.wake()
}

// SetPolicy changes Options.Policy.
func (r *Recorder) SetPolicy(p service.Policy) {
	r.index.setPolicy(p)
	r.wake()
}

func (r *Recorder) wake() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// again is the wait after a failure.
const again = 30 * time.Second

// Run records until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	said := ""
	for ctx.Err() == nil {
		if r.index.demand() == service.RecordsOff {
			r.pause(ctx, 0)
			continue
		}
		err := r.record(ctx)
		if err == nil {
			said = ""
			continue
		}
		if err.Error() != said {
			r.opts.Log.WithError(err).Warnf("No records of connections that the kernel carries: trying again "+
				"every %s", again)
			said = err.Error()
		}
		r.pause(ctx, again)
	}
	return nil
}

// pause waits until demand may have changed; 0: however long that takes.
func (r *Recorder) pause(ctx context.Context, atMost time.Duration) {
	var due <-chan time.Time
	if atMost > 0 {
		due = time.After(atMost)
	}
	select {
	case <-ctx.Done():
	case <-r.changed:
	case <-due:
	}
}

// idleWait is how long a look for events takes where there are none; gather is the time between two looks where there
// are: to be woken for each would cost more than to record it.
const (
	idleWait = time.Second
	gather   = 50 * time.Millisecond
)

// record records until no service port wants records, or ctx ends.
func (r *Recorder) record(ctx context.Context) error {
	undo, timed := r.opts.Account()
	defer undo()
	r.timeouts = r.opts.Timeouts()
	events, err := r.opts.Open(!timed)
	if err != nil {
		return err
	}
	defer events.Close()
	r.recording.Store(true)
	defer r.recording.Store(false)
	r.opts.Log.Info("Records of connections that the kernel carries: on")
	defer r.opts.Log.Info("Records of connections that the kernel carries: off")
	was := service.RecordsAll
	for ctx.Err() == nil {
		now := r.index.demand()
		if now == service.RecordsOff {
			return nil
		}
		if now != was && timed {
			if err := events.Filter(now == service.RecordsFailures); err != nil {
				return err
			}
			was = now
		}
		if err := r.receive(ctx, events); err != nil {
			return err
		}
	}
	return nil
}

// receive makes records of what is queued.
func (r *Recorder) receive(ctx context.Context, events Events) error {
	some := false
	lost, err := events.Receive(idleWait, func(begins bool, flow []byte) {
		some = true
		r.event(begins, flow)
	})
	if lost > 0 {
		r.opts.Lost(lost)
	}
	if some && err == nil {
		_ = backoff.Sleep(ctx, gather)
	}
	return err
}

func (r *Recorder) event(begins bool, flow []byte) {
	f := &r.flow
	if !f.parse(flow) {
		return
	}
	if begins {
		r.began.note(f.ID, time.Now())
		return
	}
	if f.Start == 0 {
		f.Start = r.began.take(f.ID)
	}
	if rec := r.recordOf(f); rec != nil {
		r.opts.Observe(rec)
	}
}

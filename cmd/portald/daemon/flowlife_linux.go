package daemon

import (
	"context"
	"iter"
	"net/netip"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// flowLife has the kernel know the flows of UDP sessions for as long as the sessions live: an answer that comes after
// the kernel has forgotten the flow would be lost. One goroutine uses it.
type flowLife struct {
	sessions func() iter.Seq[*record.Live]
	timeout  timeoutOf
	prolong  func(client, to netip.AddrPort, by time.Duration) error
	log      logrus.FieldLogger
	failed   bool                 // it was logged
	known    map[uint64]prolonged // by the id of the session
}

// prolonged is until when the kernel knows a flow on which nothing has moved since.
type prolonged struct{ moved, until time.Time }

// timeoutOf is platform.FlowTimeout.
type timeoutOf func(kind string) (time.Duration, error)

// keepFlows looks at all sessions now and then, until ctx ends.
func keepFlows(ctx context.Context, core *splice.Core, log logrus.FieldLogger) error {
	prolonger, err := platform.NewFlowProlonger()
	if err != nil {
		log.WithError(err).Warn(forgetsFlows)
		return nil
	}
	defer prolonger.Close()
	f := &flowLife{
		sessions: core.AllSessions, timeout: platform.FlowTimeout, prolong: prolonger.Prolong, log: log,
	}
	for ctx.Err() == nil {
		_ = backoff.Sleep(ctx, f.prolongDue(time.Now()))
	}
	return nil
}

// Bounds of the time between two checks of all sessions. Between them it is a third of the shortest time for which the
// kernel keeps a flow.
const (
	minPeriod = 200 * time.Millisecond
	maxPeriod = 10 * time.Second
)

// flowMargin is for how much longer the kernel knows a flow than its session lives.
const flowMargin = 2 * time.Second

// prolongDue prolongs the flows that the kernel would forget before the next call, of sessions that live longer: those
// that wait for an answer, and others where somebody has asked for more than the default. None is prolonged for longer
// than the kernel keeps any, so that sessions which end before their time do not fill its table. It returns when to
// call it again.
func (f *flowLife) prolongDue(now time.Time) (next time.Duration) {
	knows, err := f.timeout("udp_timeout") // of a flow that has lived for less than two seconds, or has no answer
	most := knows
	if stream, failed := f.timeout("udp_timeout_stream"); failed == nil && err == nil {
		knows, most = min(knows, stream), max(knows, stream)
	}
	if err != nil {
		return maxPeriod
	}
	next = min(max(knows/3, minPeriod), maxPeriod)
	before := f.known
	f.known = map[uint64]prolonged{}
	for l := range f.sessions() {
		ends := l.LastMoved.Add(l.UDPIdle)
		switch {
		case l.UDPIdle == 0:
			ends = now.Add(most)
		case !l.Unanswered && l.UDPIdle <= service.DefaultUDPIdle:
			continue
		}
		was, soon := before[l.ID], now.Add(2*next)
		if !was.moved.Equal(l.LastMoved) {
			was = prolonged{l.LastMoved, l.LastMoved.Add(knows)}
		}
		if was.until.Before(soon) && was.until.Before(ends) && now.Before(ends) {
			if was.until = ends.Add(flowMargin); was.until.After(now.Add(most)) {
				was.until = now.Add(most)
			}
			if err := f.prolong(l.Client, l.OriginalDst, was.until.Sub(now)); err != nil {
				f.fails(err)
			}
		}
		f.known[l.ID] = was
	}
	return next
}

const forgetsFlows = "The kernel forgets flows of UDP sessions that live longer: answers that come later are lost; " +
	"set conntrack.udpTimeout and conntrack.udpStreamTimeout to udpTimeout"

func (f *flowLife) fails(err error) {
	if !f.failed {
		f.failed = true
		f.log.WithError(err).Warn(forgetsFlows)
	}
}

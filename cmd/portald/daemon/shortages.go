package daemon

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/quota"
	"github.com/portald/portald/proxy/splice"
)

// shortagePeriod is the time between two log lines while a shortage lasts.
const shortagePeriod = 10 * time.Second

// shortages counts all shortages of the data path, and logs one each period. Logging may block, which the data path may
// not, so a goroutine of its own does that.
type shortages struct {
	log     logrus.FieldLogger
	metrics *metrics.Metrics
	next    chan error
	lost    chan error // the same of datagrams: who sends many is not to hide the other shortages
}

func newShortages(log logrus.FieldLogger, metrics *metrics.Metrics) *shortages {
	return &shortages{log, metrics, make(chan error, 1), make(chan error, 1)}
}

// report implements splice.Options.Warn. It never blocks.
func (s *shortages) report(err error) {
	var portsInUse *splice.PortsError
	var bufferFull *splice.ReceiveBufferError
	next := s.next
	switch {
	case errors.As(err, &bufferFull):
		next = s.lost
		s.metrics.ReceiveBufferFull(bufferFull.Service, uint64(bufferFull.Datagrams))
	case !errors.Is(err, splice.ErrTransparent) && !errors.As(err, &portsInUse):
		s.metrics.AcceptError(shortageLabel(err))
	}
	select {
	case next <- err:
	default:
	}
}

func (s *shortages) run(ctx context.Context) error {
	var both sync.WaitGroup
	both.Go(func() { s.follow(ctx, s.next) })
	both.Go(func() { s.follow(ctx, s.lost) })
	both.Wait()
	return nil
}

// follow logs an error each period, until ctx ends.
func (s *shortages) follow(ctx context.Context, next <-chan error) {
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-next:
			s.warn(err)
		}
		if backoff.Sleep(ctx, shortagePeriod) != nil {
			return
		}
	}
}

func (s *shortages) warn(err error) {
	log := s.log.WithError(err)
	var portsInUse *splice.PortsError
	var bufferFull *splice.ReceiveBufferError
	switch {
	case errors.As(err, &bufferFull):
		log.Warn("Datagrams were lost because portald did not read as fast as they came; see " +
			"portald_udp_receive_buffer_errors_total. The kernel can carry the Service: portald.io/mode=kernel")
	case errors.Is(err, splice.ErrTransparent):
		log.Warn("Endpoints see this node's address instead of the client's")
	case errors.As(err, &portsInUse):
		log.Warn("Local ports towards an endpoint are running out: new connections to it may soon fail. Add endpoints, or " +
			"enable TCP timestamps there so that ports can be reused sooner; see portald_crowded_dials_total")
	default:
		log.Warn("Out of a resource: connections wait or are refused; see portald_accept_errors_total")
	}
}

// shortageLabel is the metric label of a shortage.
func shortageLabel(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "descriptors"
	case errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.ENOMEM):
		return "memory"
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAGAIN):
		return "ports"
	case errors.Is(err, quota.ErrSessions):
		return "sessions"
	}
	return "other"
}

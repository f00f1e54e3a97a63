package daemon

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/splice"
)

// A flood of datagrams does not hide other shortages in the log.
func TestFloodHidesNoShortage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, hook := test.NewNullLogger()
		s := newShortages(log, metrics.NewMetrics(metrics.DefaultLimits()))
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.run(ctx) }()
		s.report(&splice.ReceiveBufferError{Datagrams: 1})
		synctest.Wait()
		s.report(&splice.ReceiveBufferError{Datagrams: 1})
		s.report(syscall.EMFILE)
		time.Sleep(shortagePeriod / 2)
		if last := hook.LastEntry(); len(hook.AllEntries()) != 2 || !strings.HasPrefix(last.Message, "Out of a resource") {
			t.Errorf("the last of %d lines is %q", len(hook.AllEntries()), last.Message)
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

package daemon

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy"
	"github.com/portald/portald/proxy/splice"
)

// How long something may take before /livez fails: a round of an event loop takes microseconds, and rules of ten
// thousand Services take seconds, at most a minute where others hold the lock of iptables.
const (
	maxLoopLatency = time.Minute
	maxSync        = 5 * time.Minute
)

// liveness tells whether anything hangs.
type liveness struct {
	core      *splice.Core
	stopwatch *proxy.Stopwatch // of the reconcile loop's calls
	log       logrus.FieldLogger
	logged    sync.Once
}

// check implements what /livez asks: an error says what hangs, so that only a restart helps. Changes that the host
// refuses are no reason: the next process would be refused as well.
func (l *liveness) check() error {
	var err error
	if t := l.core.Silent(); t > maxLoopLatency {
		err = fmt.Errorf("an event loop has not completed a round for %s", t.Round(time.Second))
	}
	if t := l.stopwatch.Running(); t > maxSync {
		err = errors.Join(err, fmt.Errorf("a sync of the host's rules has run for %s", t.Round(time.Second)))
	}
	if err != nil {
		l.logged.Do(func() { l.log.WithError(err).Error("portald hangs: /livez fails, so that it is restarted") })
	}
	return err
}

package main

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy/admin"
	"github.com/portald/portald/proxy/splice"
)

// troubleEvery is how often shortages are spoken of while they last.
const troubleEvery = 10 * time.Second

// trouble is what the data path tells its shortages: it counts them all and says one, once in a while. Logging may
// block, and the data path may not, so that is done elsewhere.
type trouble struct {
	log     logrus.FieldLogger
	metrics *admin.Metrics
	said    chan error
}

func newTrouble(log logrus.FieldLogger, metrics *admin.Metrics) *trouble {
	return &trouble{log, metrics, make(chan error, 1)}
}

// tell never blocks.
func (t *trouble) tell(err error) {
	var crowded *splice.PortsError
	if !errors.Is(err, splice.ErrTransparent) && !errors.As(err, &crowded) {
		t.metrics.AcceptError(reason(err))
	}
	select {
	case t.said <- err:
	default:
	}
}

func (t *trouble) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-t.said:
			t.say(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(troubleEvery):
		}
	}
}

func (t *trouble) say(err error) {
	var crowded *splice.PortsError
	switch {
	case errors.Is(err, splice.ErrTransparent):
		t.log.WithError(err).Warn("Endpoints see this node's address in place of the client's")
		return
	case errors.As(err, &crowded):
		t.log.WithError(err).Warn("Soon there may be no new connections to it from this node: more endpoints would share them, " +
			"or TCP timestamps at the endpoint have ports used again sooner; see portald_crowded_dials_total")
		return
	}
	t.log.WithError(err).Warn("Connections wait or are refused for want of something; see portald_accept_errors_total")
}

// reason is the metric label of a shortage.
func reason(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "descriptors"
	case errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.ENOMEM):
		return "memory"
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAGAIN):
		return "ports"
	case errors.Is(err, splice.ErrSessions):
		return "sessions"
	}
	return "other"
}

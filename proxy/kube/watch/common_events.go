package watch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/portald/portald/platform/backoff"
)

// A problem of a Service itself exists on all nodes, and is one event: each node gives it the same name, so the API
// server accepts the first and answers AlreadyExists to the others. A node that gets this answer doubles its interval:
// soon one node writes most events, and a thousand others together send about seventeen requests a second, however many
// Services have problems.
const (
	minInterval = time.Second // the mean between two requests
	maxInterval = time.Minute
)

// renewal is about how often problems that persist are recorded again: the API server deletes events after an hour.
const renewal = 30 * time.Minute

// writeCommon writes such events until ctx ends.
func (r *Recorder) writeCommon(ctx context.Context) {
	interval := minInterval
	again := time.NewTimer(jitter(renewal))
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			r.cache.EachProblem(r.Problem)
			again.Reset(jitter(renewal))
		case e := <-r.common:
			if backoff.Sleep(ctx, jitter(interval)) != nil {
				return
			}
			if r.create(ctx, e) {
				interval = max(interval/2, minInterval)
			} else {
				interval = min(2*interval, maxInterval)
			}
		}
	}
}

// jitter is a random time with the mean d, so that nodes do not send requests all at once.
func jitter(d time.Duration) time.Duration { return rand.N(2 * d) }

// create writes an event. False: it exists already, or the API server did not accept it.
func (r *Recorder) create(ctx context.Context, e event) bool {
	err := r.send(ctx, r.object(e, e.name()))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		r.log.WithError(err).Debug("Event not written")
	}
	return err == nil
}

// name is the same on all nodes, and different for different events.
func (e event) name() string {
	hash := sha256.New()
	for _, part := range []string{string(e.regarding.UID), e.regarding.FieldPath, e.reason, e.key} {
		hash.Write([]byte(part + "\x00"))
	}
	return e.regarding.Name + "." + hex.EncodeToString(hash.Sum(nil)[:8])
}

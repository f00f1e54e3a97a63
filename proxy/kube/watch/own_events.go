package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/portald/portald/platform/backoff"
)

// An event of this node that happens again becomes a series, as the API says: the first repetition is written, further
// ones are counted, and the count is written when the series is over, or has gone on for long. These are the times of
// client-go's own recorder, which needs the clients and kinds of all API groups.
const (
	seriesEnd     = 6 * time.Minute  // after the last repetition
	seriesRenewal = 30 * time.Minute // of a series that goes on
	eventTries    = 12               // while the API server does not answer
	eventPrefix   = 230              // bytes, of the 253 that a name may have
	eventPause    = 10 * time.Second // between two, and up to a quarter longer
)

// seriesKey is equal for events that are the same but for their note and time.
type seriesKey struct {
	regarding                corev1.ObjectReference
	severity, reason, action string
}

// series are the last events of this node.
type series map[seriesKey]*eventsv1.Event

// writeOwn writes events of this node until ctx ends.
func (r *Recorder) writeOwn(ctx context.Context) {
	pace := flowcontrol.NewTokenBucketRateLimiter(eventsASecond, eventsAtOnce)
	last := series{}
	over, renewal := time.NewTicker(seriesEnd), time.NewTicker(seriesRenewal)
	defer over.Stop()
	defer renewal.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-over.C:
			r.endSeries(ctx, last)
		case <-renewal.C:
			for _, e := range last {
				if e.Series != nil {
					r.write(ctx, e)
				}
			}
		case e := <-r.queue:
			if pace.Wait(ctx) != nil {
				return // ctx has ended
			}
			if e := last.add(e, r.object); e != nil {
				r.write(ctx, e)
			}
		}
	}
}

// add returns the event to write for one that has happened; nil: it is only counted.
func (s series) add(e event, object func(event, string) *eventsv1.Event) *eventsv1.Event {
	key := seriesKey{e.regarding, e.severity, e.reason, e.action}
	known := s[key]
	switch {
	case known == nil:
		of := strings.TrimRight(e.regarding.Name[:min(len(e.regarding.Name), eventPrefix)], "-.")
		s[key] = object(e, fmt.Sprintf("%s.%x", of, time.Now().UnixNano()))
		return s[key]
	case known.Series == nil:
		known.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: metav1.NowMicro()}
		return known
	}
	known.Series.Count++
	known.Series.LastObservedTime = metav1.NowMicro()
	return nil
}

// endSeries writes the final count of series that are over, and forgets them.
func (r *Recorder) endSeries(ctx context.Context, last series) {
	for key, e := range last {
		at := e.EventTime
		if e.Series != nil {
			at = e.Series.LastObservedTime
		}
		if time.Since(at.Time) < seriesEnd {
			continue
		}
		if e.Series == nil || r.write(ctx, e) {
			delete(last, key)
		}
	}
}

// write creates an event, or writes the count of a series. False: the API server does not answer.
func (r *Recorder) write(ctx context.Context, e *eventsv1.Event) bool {
	for range eventTries {
		err := r.createOrPatch(ctx, e)
		if err == nil {
			return true
		}
		r.log.WithError(err).Debug("Event not written")
		var answer apierrors.APIStatus
		if errors.As(err, &answer) {
			return true
		}
		if backoff.Sleep(ctx, wait.Jitter(eventPause, 0.25)) != nil {
			return false
		}
	}
	return false
}

func (r *Recorder) createOrPatch(ctx context.Context, e *eventsv1.Event) error {
	if e.Series != nil {
		patch, err := json.Marshal(map[string]any{"series": e.Series})
		if err != nil {
			return err
		}
		err = r.api.PatchEvent(ctx, e.Namespace, e.Name, patch)
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return r.send(ctx, e)
}

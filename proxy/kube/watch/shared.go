package watch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/proxy/kube/translate"
)

// What is wrong with a Service itself is so on every node, and is reported once: each node gives that event the same name,
// so the API server takes the first one, and tells the others that it is there. Who hears that takes twice the time until
// the next: before long one node writes what there is, and a thousand others ask some seventeen times a second together,
// however many Services have a problem.
const (
	firstGap = time.Second // the mean between two tries, and the least
	lastGap  = time.Minute
)

// renewal is how often, about, problems that stand are reported again: the API server forgets events after an hour.
const renewal = 30 * time.Minute

// shared writes such events until ctx ends.
func (r *Recorder) shared(ctx context.Context) {
	gap := firstGap
	again := time.NewTimer(around(renewal))
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			r.cache.EachProblem(r.Problem)
			again.Reset(around(renewal))
		case e := <-r.common:
			if !sleep(ctx, around(gap)) {
				return
			}
			if r.create(ctx, e) {
				gap = max(gap/2, firstGap)
			} else {
				gap = min(2*gap, lastGap)
			}
		}
	}
}

// around is any time up to twice as long, so that nodes do not ask all at once.
func around(d time.Duration) time.Duration { return rand.N(2 * d) }

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// create writes an event. False: there was none to be written, or nobody to write it to.
func (r *Recorder) create(ctx context.Context, e event) bool {
	_, err := r.sink.Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: e.name(), Namespace: e.regarding.Namespace},
		EventTime:  metav1.NowMicro(), ReportingController: controllerName, Regarding: e.regarding,
		Type: e.severity, Reason: e.reason, Action: e.action, Note: translate.Truncate(e.note, eventNoteLimit),
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		r.log.WithError(err).Debug("An event could not be written")
	}
	return err == nil
}

// name is the same on every node, and another for anything else that there is to say.
func (e event) name() string {
	hash := sha256.New()
	for _, part := range []string{string(e.regarding.UID), e.regarding.FieldPath, e.reason, e.key} {
		hash.Write([]byte(part + "\x00"))
	}
	return e.regarding.Name + "." + hex.EncodeToString(hash.Sum(nil)[:8])
}

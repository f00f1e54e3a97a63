package watch

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/portald/portald/portal/service"
)

// needsPeriod is how long one event stands for all clients of a Service that begin to wait, on all nodes.
const needsPeriod = time.Minute

// NeedPods records that clients of a Service wait for an endpoint, under the reason that OpenShift's idler has for it:
// a controller may scale something up. It is written without the delays of other events, and lost if there are many.
func (r *Recorder) NeedPods(svc service.Name, note string) {
	if r != nil {
		ref := r.cache.Reference(svc)
		r.add(r.needs, event{ref, corev1.EventTypeNormal, "NeedPods", "Hold", note,
			note + time.Now().UTC().Truncate(needsPeriod).String()})
	}
}

// Scaled records that this node has scaled the workload of a Service.
func (r *Recorder) Scaled(svc service.Name, note string) {
	if r != nil {
		r.add(r.queue, event{r.cache.Reference(svc), corev1.EventTypeNormal, "ScaledFromZero", "Scale", note, ""})
	}
}

// NotScaled records why the workload of a Service cannot be scaled, on all nodes.
func (r *Recorder) NotScaled(svc service.Name, note string) {
	if r != nil {
		r.add(r.common, event{r.cache.Reference(svc), corev1.EventTypeWarning, "FailedToScale", "Scale", note, note})
	}
}

// writeNeeds writes events of NeedPods until ctx ends.
func (r *Recorder) writeNeeds(ctx context.Context) {
	pace := flowcontrol.NewTokenBucketRateLimiter(eventsASecond, eventsAtOnce)
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-r.needs:
			if pace.Wait(ctx) != nil {
				return // ctx has ended
			}
			r.create(ctx, e)
		}
	}
}

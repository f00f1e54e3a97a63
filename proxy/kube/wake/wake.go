// Package wake reports that clients of a Service wait for an endpoint, and scales the workload that the Service names
// for that (portald.io/wake) from 0. It does not know who waits, and scales nothing down.
package wake

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	"github.com/portald/portald/portal/service"
)

// The pause after a try that failed doubles from the first to the last.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// How many Services are served a second, and at once: clients of many may begin to wait together.
const (
	aSecond = 5
	atOnce  = 25
)

// workers is how many requests are under way at most.
const workers = 2

// Options of a Waker. All are needed, but for Client.
type Options struct {
	Client Scaler // nil: there is no API server, and nothing is scaled
	Log    logrus.FieldLogger
	// NeedPods is told that clients of a Service begin to wait.
	NeedPods func(svc service.Name, note string)
	// Scaled and Failed are told what became of the workload of a Service; Failed once for the same reason.
	Scaled, Failed func(svc service.Name, note string)
}

// Waker does that. Safe for concurrent use.
type Waker struct {
	opts  Options
	queue workqueue.TypedRateLimitingInterface[service.Name]

	mu     sync.Mutex
	needs  map[service.Name]need // guarded by mu: of what is queued, or is to be tried again
	of     map[string]int        // guarded by mu: how many of these a namespace has
	failed reports               // guarded by mu
	noted  reports               // guarded by mu
}

// need describes the endpoints that clients of a Service wait for.
type need struct {
	port  service.PortName
	wake  service.Wake
	noted bool
}

// New returns a Waker that does nothing before Run.
func New(o Options) *Waker {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[service.Name](firstPause, lastPause)
	return &Waker{
		opts: o, queue: workqueue.NewTypedRateLimitingQueue(limiter), needs: map[service.Name]need{},
		of: map[string]int{}, failed: newReports(), noted: newReports(),
	}
}

// Need is called when a client begins to wait for an endpoint of a service port. It returns at once.
func (w *Waker) Need(p *service.Port) {
	svc := p.Name.Service()
	w.mu.Lock()
	defer w.mu.Unlock()
	old, known := w.needs[svc]
	if !known {
		if w.of[svc.Namespace] >= mostNeeds {
			return // its next client tells again
		}
		w.of[svc.Namespace]++
	}
	w.needs[svc] = need{p.Name, p.Policy.Wake, known && old.noted}
	if !known || old.wake != p.Policy.Wake {
		w.queue.Forget(svc)
		w.queue.Add(svc)
	}
}

// mostNeeds bounds the Services of a namespace that wait for their turn: Services of other namespaces come after them.
const mostNeeds = 50

// Run serves until ctx ends. Waits tells whether clients of a Service wait: nothing is tried again for those that have
// left.
func (w *Waker) Run(ctx context.Context, waits func(service.Name) bool) error {
	pace := flowcontrol.NewTokenBucketRateLimiter(aSecond, atOnce)
	stop := context.AfterFunc(ctx, w.queue.ShutDown)
	defer stop()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { w.work(ctx, pace, waits) })
	}
	all.Wait()
	return nil
}

func (w *Waker) work(ctx context.Context, pace flowcontrol.RateLimiter, waits func(service.Name) bool) {
	for {
		svc, ended := w.queue.Get()
		if ended {
			return
		}
		if pace.Wait(ctx) == nil { // else ctx has ended
			w.serve(ctx, svc, waits)
		}
		w.queue.Done(svc)
	}
}

// serve tells of a Service, and scales its workload. A try that failed is repeated as long as clients wait.
func (w *Waker) serve(ctx context.Context, svc service.Name, waits func(service.Name) bool) {
	n, known := w.take(svc)
	switch {
	case !known: // it is done since it was queued
		return
	case !n.noted:
		w.tell(svc, n)
	case !waits(svc):
		w.done(svc, n)
		return
	}
	if w.opts.Client == nil || n.wake == (service.Wake{}) {
		w.done(svc, n)
		return
	}
	scaled, err := scale(ctx, w.opts.Client, svc.Namespace, n.wake)
	switch {
	case err != nil && ctx.Err() != nil:
	case err != nil:
		w.fail(svc, err.Error())
		w.queue.AddRateLimited(svc)
	case scaled:
		w.scaled(svc, n.wake)
		w.done(svc, n)
	default:
		w.done(svc, n)
	}
}

// take returns what is needed, and whether it was told before.
func (w *Waker) take(svc service.Name) (n need, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n, known = w.needs[svc]; known {
		w.needs[svc] = need{n.port, n.wake, true}
	}
	return n, known
}

// done forgets a Service, unless it names another workload by now, which is queued.
func (w *Waker) done(svc service.Name, n need) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now, known := w.needs[svc]; known && now.wake == n.wake {
		delete(w.needs, svc)
		if w.of[svc.Namespace]--; w.of[svc.Namespace] == 0 {
			delete(w.of, svc.Namespace)
		}
		w.queue.Forget(svc)
	}
}

func (w *Waker) tell(svc service.Name, n need) {
	note := "The service-port " + n.port.Label() + " needs pods: clients wait for an endpoint"
	w.opts.NeedPods(svc, note)
	if w.isNew(w.noted, svc, note) {
		w.opts.Log.WithField("service", n.port.Label()).Info("Clients wait for an endpoint")
	}
}

func (w *Waker) scaled(svc service.Name, to service.Wake) {
	note := to.Kind + "/" + to.Name + " is scaled from 0 to " + replicas(to.Replicas) + ": clients wait for an endpoint"
	w.opts.Log.WithField("service", svc.String()).Info(note)
	w.opts.Scaled(svc, note)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.failed, svc)
}

func (w *Waker) fail(svc service.Name, why string) {
	if w.isNew(w.failed, svc, why) {
		w.opts.Log.WithField("service", svc.String()).Warn(why)
		w.opts.Failed(svc, why)
	}
}

func (w *Waker) isNew(r reports, svc service.Name, text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.isNew(svc, text, time.Now())
}

package watch

import (
	"cmp"
	"context"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/translate"
)

// controllerName is the reporting controller of events.
const controllerName = "portald"

// Limits of events. Many Services may have a problem at once, and writing events must slow down neither the API server
// nor other requests of this daemon: events beyond the limits are dropped. All are in the log too.
const (
	eventQueue     = 256
	eventsASecond  = 1
	eventsAtOnce   = 25
	eventNoteLimit = 1024 // the API's, as the next
	eventNameLimit = 128
)

// Recorder writes Kubernetes events on this node and on Services. Its methods never block; while the API server does
// not answer events are lost. A nil Recorder records nothing. Safe for concurrent use.
type Recorder struct {
	api       API
	cache     *translate.Cache
	log       logrus.FieldLogger
	queue     chan event // events of this node
	common    chan event // events that are the same on all nodes
	needs     chan event // of these, the events NeedPods
	forbidden sync.Once
}

// event waits to be written.
type event struct {
	regarding                      corev1.ObjectReference
	severity, reason, action, note string
	key                            string // of an event that is the same on all nodes: what distinguishes it
}

// NewRecorder returns a Recorder for the node and the Services of a cache.
func NewRecorder(api API, cache *translate.Cache, log logrus.FieldLogger) *Recorder {
	return &Recorder{api: api, cache: cache, log: log,
		queue: make(chan event, eventQueue), common: make(chan event, eventQueue), needs: make(chan event, eventQueue)}
}

// Starting records that the daemon started on this node.
func (r *Recorder) Starting() {
	r.node(corev1.EventTypeNormal, "Starting", "StartKubeProxy", "portald serves the Services of this node")
}

// NodeWarning records a problem of this node. Reason and action are single words in CamelCase, like kube-proxy's; the
// note is a sentence.
func (r *Recorder) NodeWarning(reason, action, note string) {
	r.node(corev1.EventTypeWarning, reason, action, note)
}

// ServiceWarning records a problem of a Service on this node.
func (r *Recorder) ServiceWarning(svc service.Name, reason, action, note string) {
	if r != nil {
		r.add(r.queue, event{r.cache.Reference(svc), corev1.EventTypeWarning, reason, action, note, ""})
	}
}

// Contested records that another Service owns an address of a Service, on all nodes.
func (r *Recorder) Contested(svc service.Name, note string) {
	if r != nil {
		r.add(r.common, event{r.cache.Reference(svc), corev1.EventTypeWarning, "AddressTaken", "LeaveOut", note, note})
	}
}

// Refused records that a port of a Service cannot be served as the Service is written. One event stands for all nodes
// on which that is so.
func (r *Recorder) Refused(svc service.Name, port, why string) {
	r.state(corev1.EventTypeWarning, svc, "NotServed", "SetAside", port, port+": "+why)
}

// Served records that a port that was refused is served.
func (r *Recorder) Served(svc service.Name, port string) {
	r.state(corev1.EventTypeNormal, svc, "Served", "Serve", port, port+" is served again")
}

func (r *Recorder) state(severity string, svc service.Name, reason, action, port, note string) {
	if r != nil {
		ref := r.cache.Reference(svc)
		r.add(r.common, event{ref, severity, reason, action, note, port + " " + ref.ResourceVersion})
	}
}

// Problem records a problem of a Service: it is for Cache.Report.
func (r *Recorder) Problem(svc service.Name, p translate.Problem) {
	if r == nil {
		return
	}
	reason, action := "InvalidField", "LeaveOut"
	if strings.HasPrefix(p.Field, "metadata.annotations[") {
		reason, action = "InvalidSetting", "UseDefault"
	}
	ref := r.cache.Reference(svc)
	ref.FieldPath = p.Field
	r.add(r.common, event{ref, corev1.EventTypeWarning, reason, action, p.Error(), p.Error()})
}

func (r *Recorder) node(severity, reason, action, note string) {
	if r == nil {
		return
	}
	name := r.cache.Options().NodeName
	// kubectl finds the events of a node by this UID, which kubelets use too.
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: string(translate.KindNode), Name: name, UID: types.UID(name)}
	r.add(r.queue, event{ref, severity, reason, action, note, ""})
}

func (r *Recorder) add(to chan<- event, e event) {
	e.note = printable.Text(e.note) // it may have values that tenants wrote
	select {
	case to <- e:
	default: // the queue is full; the event is in the log
	}
}

// Run writes events until ctx ends, those that were recorded before it too.
func (r *Recorder) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { r.writeOwn(ctx) })
	all.Go(func() { r.writeCommon(ctx) })
	all.Go(func() { r.writeNeeds(ctx) })
	all.Wait()
	return nil
}

// object is an event as the API server gets it.
func (r *Recorder) object(e event, name string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: cmp.Or(e.regarding.Namespace, metav1.NamespaceDefault)},
		EventTime:  metav1.NowMicro(), ReportingController: controllerName, Regarding: e.regarding,
		ReportingInstance: translate.Truncate(r.cache.Options().NodeName, eventNameLimit),
		Type:              e.severity, Reason: e.reason, Action: e.action, Note: translate.Truncate(e.note, eventNoteLimit),
	}
}

// send creates an event.
func (r *Recorder) send(ctx context.Context, e *eventsv1.Event) error {
	err := r.api.CreateEvent(ctx, e)
	if apierrors.IsForbidden(err) {
		r.forbidden.Do(func() {
			r.log.Warnf("The API server refuses events: %v; let a ClusterRole grant this account the verbs create and "+
				"patch on events.events.k8s.io", err)
		})
	}
	return err
}

package kube

import (
	"context"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/portald/portald/proxy/service"
)

// controllerName is who writes events, in their words.
const controllerName = "portald"

// Bounds of events. Many Services may have a problem at once, and writing must not keep the API server, nor our own
// other requests to it, from anything: what does not fit is left out. It stands in the log too.
const (
	eventQueue     = 256
	eventsASecond  = 1
	eventsAtOnce   = 25
	eventNoteLimit = 1024 // the API's, as the next
	eventNameLimit = 128
)

// Recorder writes Kubernetes events on this node and on Services. Its methods never block; while the API server is away
// events are lost. Nil records nothing. Safe for concurrent use.
type Recorder struct {
	client *Client
	cache  *Cache
	log    logrus.FieldLogger
	queue  chan event
}

// event is one that waits to be written.
type event struct {
	regarding                      corev1.ObjectReference
	severity, reason, action, note string
}

// NewRecorder returns a Recorder for the node and the Services of cache.
func NewRecorder(client *Client, cache *Cache, log logrus.FieldLogger) *Recorder {
	return &Recorder{client: client, cache: cache, log: log, queue: make(chan event, eventQueue)}
}

// Starting says that the daemon started on this node.
func (r *Recorder) Starting() {
	r.node(corev1.EventTypeNormal, "Starting", "StartKubeProxy", "portald serves the Services of this node")
}

// NodeWarning says that something on this node needs somebody's attention. Reason and action are single words in
// CamelCase, as kube-proxy's; the note is for people.
func (r *Recorder) NodeWarning(reason, action, note string) {
	r.node(corev1.EventTypeWarning, reason, action, note)
}

// ServiceWarning says the same of a Service.
func (r *Recorder) ServiceWarning(svc service.Name, reason, action, note string) {
	r.service(corev1.EventTypeWarning, svc, "", reason, action, note)
}

// ServiceNormal says that something of a Service is well again.
func (r *Recorder) ServiceNormal(svc service.Name, reason, action, note string) {
	r.service(corev1.EventTypeNormal, svc, "", reason, action, note)
}

// Problem says what of a Service cannot be served as it is written: what Cache.Report calls for.
func (r *Recorder) Problem(svc service.Name, p Problem) {
	reason, action := "InvalidField", "LeaveOut"
	if strings.HasPrefix(p.Field, "metadata.annotations[") {
		reason, action = "InvalidSetting", "UseDefault"
	}
	r.service(corev1.EventTypeWarning, svc, p.Field, reason, action, p.Error())
}

func (r *Recorder) node(severity, reason, action, note string) {
	if r == nil {
		return
	}
	name := r.cache.opts.NodeName
	// kubectl looks for the events of a node by this UID, as kubelets write it.
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: string(KindNode), Name: name, UID: types.UID(name)}
	r.add(event{ref, severity, reason, action, note})
}

func (r *Recorder) service(severity string, svc service.Name, field, reason, action, note string) {
	if r == nil {
		return
	}
	ref := r.cache.reference(svc)
	ref.FieldPath = field // events that differ in it are not taken for repetitions of one
	r.add(event{ref, severity, reason, action, note})
}

func (r *Recorder) add(e event) {
	select {
	case r.queue <- e:
	default: // it stands in the log
	}
}

// Run writes events until ctx ends. What was recorded before waits for it.
func (r *Recorder) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, libraryLog(r.log))
	broadcaster := events.NewBroadcaster(&eventSink{
		EventSinkImpl: events.EventSinkImpl{Interface: r.client.EventsV1()}, node: r.cache.opts.NodeName, log: r.log,
	})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	write := broadcaster.NewRecorder(scheme.Scheme, controllerName).WithLogger(klog.FromContext(ctx)).Eventf
	pace := flowcontrol.NewTokenBucketRateLimiter(eventsASecond, eventsAtOnce)
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-r.queue:
			if pace.Wait(ctx) != nil {
				return nil // ctx has ended
			}
			write(&e.regarding, nil, e.severity, e.reason, e.action, "%s", cut(e.note, eventNoteLimit))
		}
	}
}

// eventSink names this node as the one that writes, where the library has the host's name.
type eventSink struct {
	events.EventSinkImpl
	node string
	log  logrus.FieldLogger
	once sync.Once
}

// Create writes an event.
func (s *eventSink) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	e.ReportingInstance = cut(s.node, eventNameLimit)
	out, err := s.EventSinkImpl.Create(ctx, e)
	if apierrors.IsForbidden(err) {
		s.once.Do(func() {
			s.log.Warnf("The API server refuses events: %v; let a ClusterRole grant this account the verbs create and "+
				"patch on events.events.k8s.io", err)
		})
	}
	return out, err
}

// Package watch lists and watches the objects of an API server for translate.Cache, and writes events. It does not know
// what the objects mean.
package watch

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/portald/portald/proxy/kube/apiclient"
	"github.com/portald/portald/proxy/kube/translate"
)

// Source fills a Cache from an API server: Services, EndpointSlices and this node's Node, and as the Cache's options
// say ServiceCIDRs and the pods of the cluster. It stores no objects itself.
type Source struct {
	api      API
	cache    *translate.Cache
	log      logrus.FieldLogger
	status   *status
	synced   chan struct{}
	unlisted atomic.Int32 // kinds that are not listed yet
	ranges   *ranges      // nil: ServiceCIDRs are not watched

	// Report is told when the server does not answer, or refuses what is needed, and when that is over; it must be quick.
	// It is set before Run, nil for nobody.
	Report func(answers bool, text string)
}

// API is an API server: apiclient.Client.
type API interface {
	Server() string // URL, for messages
	Objects(schema.GroupVersionResource) *clientcache.ListWatch
	CreateEvent(context.Context, *eventsv1.Event) error
	PatchEvent(ctx context.Context, namespace, name string, patch []byte) error
}

// New prepares to watch. The cache's options say which node and which Services.
func New(api API, cache *translate.Cache, log logrus.FieldLogger) *Source {
	return &Source{
		api: api, cache: cache, log: log, status: newStatus(api.Server(), log), synced: make(chan struct{}),
	}
}

// Synced is closed once all objects were listed, and their service ports are in the Store.
func (s *Source) Synced() <-chan struct{} { return s.synced }

// Run watches until ctx ends. If the server cannot be reached, or refuses, that is logged and Run retries; the objects
// known so far stay in the cache. The error is always nil. Call it once.
func (s *Source) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, libraryLog(s.log))
	s.log.Infof("Watching API server %s", s.api.Server())
	s.status.tell = s.Report
	s.cache.Pause()
	stores := s.stores()
	var running sync.WaitGroup
	for _, st := range stores {
		running.Go(func() { st.run(ctx) })
	}
	if s.ranges != nil {
		running.Go(func() { s.ranges.run(ctx) })
	}
	running.Wait()
	return nil
}

// stores returns the stores of all kinds. Selectors have the server leave out what is not served.
func (s *Source) stores() []*store {
	const notHeadless = "!" + translate.LabelHeadless
	ours := "!" + translate.LabelProxyName
	if name := s.cache.Options().ServiceProxyName; name != "" {
		ours = translate.LabelProxyName + "=" + name
	}
	services := &requests{
		kind: translate.KindService, status: s.status, labels: ours + "," + notHeadless,
		fields: fields.OneTermNotEqualSelector("spec.clusterIP", corev1.ClusterIPNone).String(),
	}
	endpointSlices := &requests{kind: translate.KindEndpointSlice, status: s.status, labels: notHeadless}
	node := &requests{
		kind: translate.KindNode, status: s.status,
		fields: fields.OneTermEqualSelector(metav1.ObjectNameField, s.cache.Options().NodeName).String(),
	}
	stores := []*store{
		s.store(services, &corev1.Service{}, s.api.Objects(apiclient.Services)),
		s.store(endpointSlices, &discoveryv1.EndpointSlice{}, s.api.Objects(apiclient.EndpointSlices)),
		s.store(node, &corev1.Node{}, s.api.Objects(apiclient.Nodes)),
	}
	s.unlisted.Store(int32(len(stores)))
	if s.cache.Options().ClientPods {
		stores = append(stores, s.pods())
	}
	if s.cache.Options().ServiceCIDRs {
		s.ranges = s.newRanges()
	}
	return stores
}

// pods is the store of the pods that may be clients. Services are served without it.
func (s *Source) pods() *store {
	running := fields.AndSelectors(fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
	pods := &requests{kind: translate.KindPod, status: s.status, fields: running.String()}
	st := s.store(pods, &corev1.Pod{}, s.api.Objects(apiclient.Pods))
	st.listed = func() {}
	return st
}

func (s *Source) store(r *requests, example runtime.Object, objects *clientcache.ListWatch) *store {
	return &store{
		kind: r.kind, example: example, cache: s.cache, listed: s.listed,
		source: clientcache.ToListWatcherWithWatchListSemantics(r.listWatch(objects), s.api),
	}
}

// listed records that all objects of one more kind were listed. After the last kind, all are translated.
func (s *Source) listed() {
	if s.unlisted.Add(-1) > 0 {
		return
	}
	s.cache.Resume()
	s.status.complete()
	s.ranges.wait()
	close(s.synced)
	services, endpointSlices := s.cache.Changes()
	s.log.Infof("API server %s: %d Services and %d EndpointSlices listed", s.api.Server(), services, endpointSlices)
}

// Package watch follows an API server: it feeds translate.Cache from lists and watches, and writes events. It does not know
// what objects mean.
package watch

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/portald/portald/proxy/kube/translate"
)

// Source feeds a Cache from an API server: Services, EndpointSlices and this node's Node. It holds no objects itself.
type Source struct {
	client  *Client
	cache   *translate.Cache
	log     logrus.FieldLogger
	contact *contact
	synced  chan struct{}
	missing atomic.Int32 // kinds of which nothing has come yet
}

// New prepares to watch. Which node is this one, and which Services are ours, is as the cache has it.
func New(client *Client, cache *translate.Cache, log logrus.FieldLogger) *Source {
	return &Source{
		client: client, cache: cache, log: log, contact: newContact(client.Server, log), synced: make(chan struct{}),
	}
}

// Synced is closed once all objects that there are have come, and are in the Store.
func (w *Source) Synced() <-chan struct{} { return w.synced }

// Run watches until ctx ends. A server that cannot be reached, or refuses, is waited for and logged; what is known stays
// in force meanwhile. The error is always nil. Call it once.
func (w *Source) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, libraryLog(w.log))
	w.log.Infof("watching API server %s", w.client.Server)
	w.cache.Hold()
	feeds := w.feeds()
	w.missing.Store(int32(len(feeds)))
	var running sync.WaitGroup
	for _, f := range feeds {
		running.Go(func() { f.run(ctx) })
	}
	running.Wait()
	return nil
}

// feeds are the three kinds and what of each is asked for: as little as the server can tell apart.
func (w *Source) feeds() []*feed {
	const notHeadless = "!" + translate.LabelHeadless
	ours := "!" + translate.LabelProxyName
	if name := w.cache.Options().ServiceProxyName; name != "" {
		ours = translate.LabelProxyName + "=" + name
	}
	services := &requests{
		kind: translate.KindService, contact: w.contact, labels: ours + "," + notHeadless,
		fields: fields.OneTermNotEqualSelector("spec.clusterIP", corev1.ClusterIPNone).String(),
	}
	endpointSlices := &requests{kind: translate.KindEndpointSlice, contact: w.contact, labels: notHeadless}
	node := &requests{
		kind: translate.KindNode, contact: w.contact,
		fields: fields.OneTermEqualSelector(metav1.ObjectNameField, w.cache.Options().NodeName).String(),
	}
	core, discovery, everywhere := w.client.CoreV1(), w.client.DiscoveryV1(), metav1.NamespaceAll
	return []*feed{
		w.feed(services, &corev1.Service{}, listWatch(services, core.Services(everywhere))),
		w.feed(endpointSlices, &discoveryv1.EndpointSlice{}, listWatch(endpointSlices, discovery.EndpointSlices(everywhere))),
		w.feed(node, &corev1.Node{}, listWatch(node, core.Nodes())),
	}
}

func (w *Source) feed(r *requests, example runtime.Object, source *clientcache.ListWatch) *feed {
	return &feed{
		kind: r.kind, example: example, cache: w.cache, arrived: w.arrived,
		source: clientcache.ToListWatcherWithWatchListSemantics(source, w.client.Interface),
	}
}

// arrived notes that all objects of one more kind have come. With the last kind, all are translated.
func (w *Source) arrived() {
	if w.missing.Add(-1) > 0 {
		return
	}
	w.cache.Release()
	w.contact.complete()
	close(w.synced)
	services, endpointSlices := w.cache.Changes()
	w.log.Infof("API server %s: %d Services and %d EndpointSlices read", w.client.Server, services, endpointSlices)
}

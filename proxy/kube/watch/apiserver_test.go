package watch

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kube/apiclient"
	"github.com/portald/portald/proxy/kube/objecttest"
	"github.com/portald/portald/proxy/kube/translate"
)

// TestMain removes the library's wait after errors: it uses a clock that all tests share, and in synctest's bubbles
// time begins again.
func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	m.Run()
}

// apiServer is a fake one. It runs in a synctest bubble, so that time does not matter.
type apiServer struct {
	*fake.Clientset
	t     *testing.T
	cache *translate.Cache
	store *service.Store
	log   *logrus.Logger
	hook  *logtest.Hook

	mu      sync.Mutex
	refuse  func(verb, resource, fields string) error // nil: nothing is
	streams []watch.Interface

	reported []string
}

// reports fails unless these were reported, in this order, since it was called last.
func (s *apiServer) reports(want ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff(want, s.reported); diff != "" {
		s.t.Errorf("reported (-want +got)\n%s", diff)
	}
	s.reported = nil
}

func newAPIServer(t *testing.T, opts translate.Options, objects ...runtime.Object) *apiServer {
	log, hook := logtest.NewNullLogger()
	s := &apiServer{Clientset: fake.NewClientset(objects...), t: t, store: service.NewStore(), log: log, hook: hook}
	s.cache = translate.NewCache(s.store, opts, log)
	s.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		err := s.refused(a.GetVerb(), a.GetResource().Resource,
			a.(clienttesting.ListAction).GetListRestrictions().Fields.String())
		return err != nil, nil, err
	})
	s.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w := a.(clienttesting.WatchAction)
		if err := s.refused(a.GetVerb(), a.GetResource().Resource, w.GetWatchRestrictions().Fields.String()); err != nil {
			return true, nil, err
		}
		stream, err := s.Tracker().Watch(a.GetResource(), a.GetNamespace())
		s.mu.Lock()
		defer s.mu.Unlock()
		s.streams = append(s.streams, stream)
		return true, stream, err
	})
	return s
}

// Server implements API.
func (s *apiServer) Server() string { return "https://api:6443" }

// Objects implements API.
func (s *apiServer) Objects(resource schema.GroupVersionResource) *clientcache.ListWatch {
	switch resource {
	case apiclient.Services:
		return fakeListWatch(s.CoreV1().Services(""))
	case apiclient.Nodes:
		return fakeListWatch(s.CoreV1().Nodes())
	case apiclient.Pods:
		return fakeListWatch(s.CoreV1().Pods(""))
	case apiclient.EndpointSlices:
		return fakeListWatch(s.DiscoveryV1().EndpointSlices(""))
	case apiclient.ServiceCIDRs:
		return fakeListWatch(s.NetworkingV1().ServiceCIDRs())
	}
	panic(resource)
}

func fakeListWatch[L runtime.Object](client interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}) *clientcache.ListWatch {
	return &clientcache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, o)
		},
		WatchFuncWithContext: client.Watch,
	}
}

// CreateEvent implements API.
func (s *apiServer) CreateEvent(ctx context.Context, e *eventsv1.Event) error {
	_, err := s.EventsV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
	return err
}

// PatchEvent implements API.
func (s *apiServer) PatchEvent(ctx context.Context, namespace, name string, patch []byte) error {
	_, err := s.EventsV1().Events(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (s *apiServer) refused(verb, resource, fields string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse == nil {
		return nil
	}
	return s.refuse(verb, resource, fields)
}

// refuseWith has all requests from now on answered by an error, nil for none, and breaks the watches that stand.
func (s *apiServer) refuseWith(refuse func(verb, resource, fields string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
	for _, w := range s.streams {
		w.Stop()
	}
	s.streams = nil
}

// away is how it is when nobody listens.
func away(string, string, string) error {
	return &url.Error{Op: "Get", URL: "https://api/?very=long", Err: fmt.Errorf("dial tcp: %w", syscall.ECONNREFUSED)}
}

// start watches until the test ends.
func (s *apiServer) start() *Source {
	w := New(s, s.cache, s.log)
	w.Report = func(answers bool, text string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reported = append(s.reported, fmt.Sprint(answers, " ", text))
	}
	ctx, stop := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		check(s.t, <-done)
	})
	return w
}

// serves fails unless the store has these service ports once everything has settled.
func (s *apiServer) serves(what, want string) {
	s.t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, objecttest.All(s.store)); diff != "" {
		s.t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

// said are the lines of the log since the last time.
func (s *apiServer) said() (out []string) {
	for _, e := range s.hook.AllEntries() {
		out = append(out, e.Level.String()+": "+e.Message)
	}
	s.hook.Reset()
	return out
}

func (s *apiServer) update(objects ...any) {
	s.t.Helper()
	for _, o := range objects {
		var err error
		switch o := o.(type) {
		case *corev1.Service:
			_, err = s.CoreV1().Services(o.Namespace).Update(s.t.Context(), o, metav1.UpdateOptions{})
		case *discoveryv1.EndpointSlice:
			_, err = s.DiscoveryV1().EndpointSlices(o.Namespace).Update(s.t.Context(), o, metav1.UpdateOptions{})
		case *corev1.Node:
			_, err = s.CoreV1().Nodes().Update(s.t.Context(), o, metav1.UpdateOptions{})
		}
		check(s.t, err)
	}
}

// cartAt is Service cart with a ClusterIP, and its slice with an endpoint.
func cartAt(t *testing.T, addr string) (*corev1.Service, *discoveryv1.EndpointSlice) {
	svc, back := objecttest.Objects(t, objecttest.Service("spec: {clusterIP: 10.96.0.7, ports: [{port: 80}]}")+
		objecttest.Slice("cart-x", "IPv4", "ports: [{port: 80}]\nendpoints: [{addresses: ["+addr+"], hints: {forZones: "+
			"[{name: z1}]}}, "+
			"{addresses: [10.244.9.9], hints: {forZones: [{name: z2}]}}]"))
	svc.ResourceVersion, back[0].ResourceVersion = "1", "2"
	return svc, back[0]
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

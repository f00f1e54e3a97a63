package watch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/portald/portald/proxy/kube/translate"
)

// store is the target of client-go's reflector of one kind: it trims each object and passes it to the cache, which
// finds removed objects itself after a relist. Nothing else stores objects.
type store struct {
	kind    translate.Kind
	example runtime.Object
	source  clientcache.ListerWatcher
	cache   *translate.Cache
	listed  func() // is called when all objects were listed for the first time
	first   sync.Once
}

// Backoff between requests that fail: it doubles from the first to the last, and a random part of up to the same is
// added. The last is half of client-go's: many nodes send requests at once when a server comes back, but they also wait
// for it.
const (
	firstBackoff = 500 * time.Millisecond
	lastBackoff  = 15 * time.Second
)

// run lists and watches until ctx ends.
func (s *store) run(ctx context.Context) {
	log := klog.FromContext(ctx)
	clientcache.NewReflectorWithOptions(s.source, s.example, s, clientcache.ReflectorOptions{
		Name:    string(s.kind),
		Logger:  &log,
		Backoff: &wait.Backoff{Duration: firstBackoff, Factor: 2, Jitter: 1, Steps: 16, Cap: lastBackoff},
	}).RunWithContext(ctx)
}

// Transformer trims objects while a long list is still received.
func (s *store) Transformer() clientcache.TransformFunc {
	return func(object any) (any, error) { return s.trim(object) }
}

func (s *store) trim(object any) (translate.Object, error) {
	t := translate.Trim(object, s.cache.Options())
	if t == nil {
		return nil, fmt.Errorf("store a %T as %s", object, s.kind)
	}
	return t, nil
}

// Add stores the newest state of an object.
func (s *store) Add(object any) error {
	t, err := s.trim(object)
	if err == nil {
		s.cache.Apply([]translate.Object{t}, nil)
	}
	return err
}

// Update is the same.
func (s *store) Update(object any) error { return s.Add(object) }

// Delete removes an object: it was deleted, or is no longer selected.
func (s *store) Delete(object any) error {
	m, err := meta.Accessor(object)
	if err == nil {
		s.cache.Delete(translate.Key{Kind: s.kind, Namespace: m.GetNamespace(), Name: m.GetName()})
	}
	return err
}

// Replace stores all objects of the kind.
func (s *store) Replace(objects []any, _ string) error {
	all := make([]translate.Object, 0, len(objects))
	for _, o := range objects {
		t, err := s.trim(o)
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	s.cache.Replace(s.kind, all)
	s.first.Do(s.listed)
	return nil
}

// Resync does nothing: the cache has already translated what it stores.
func (s *store) Resync() error { return nil }

// QuietLibraries redirects the messages that Kubernetes' libraries log globally to log, at level debug. It affects the
// whole process; call it once.
func QuietLibraries(log logrus.FieldLogger) { klog.SetLogger(libraryLog(log)) }

// libraryLog logs client-go's messages at level debug: status logs what operators need to know.
func libraryLog(log logrus.FieldLogger) logr.Logger {
	return funcr.New(func(prefix, args string) { log.Debugf("client-go: %s %s", prefix, args) }, funcr.Options{})
}

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

// feed hands on the objects of one kind from client-go's reflector to the cache, trimmed at once. To the reflector it is
// the store of them: there is no other, and after a relist the cache itself finds what is gone.
type feed struct {
	kind    translate.Kind
	example runtime.Object
	source  clientcache.ListerWatcher
	cache   *translate.Cache
	arrived func() // all that there are have come for the first time
	first   sync.Once
}

// Waits between tries to reach the API server, doubled from the first to the last and then by chance up to doubled.
// The last is half of client-go's: many nodes ask at once when a server comes back, but they also wait for it.
const (
	firstWait = 500 * time.Millisecond
	lastWait  = 15 * time.Second
)

// run keeps the cache up to date until ctx ends.
func (f *feed) run(ctx context.Context) {
	log := klog.FromContext(ctx)
	clientcache.NewReflectorWithOptions(f.source, f.example, f, clientcache.ReflectorOptions{
		Name:    string(f.kind),
		Logger:  &log,
		Backoff: &wait.Backoff{Duration: firstWait, Factor: 2, Jitter: 1, Steps: 16, Cap: lastWait},
	}).RunWithContext(ctx)
}

// Transformer has objects trimmed even while a long list of them still comes in.
func (f *feed) Transformer() clientcache.TransformFunc {
	return func(object any) (any, error) { return f.trim(object) }
}

func (f *feed) trim(object any) (translate.Object, error) {
	t := translate.Trim(object, f.cache.Options())
	if t == nil {
		return nil, fmt.Errorf("take in a %T as %s", object, f.kind)
	}
	return t, nil
}

// Add takes in the newest state of an object.
func (f *feed) Add(object any) error {
	t, err := f.trim(object)
	if err == nil {
		f.cache.Apply([]translate.Object{t}, nil)
	}
	return err
}

// Update is the same.
func (f *feed) Update(object any) error { return f.Add(object) }

// Delete forgets an object: it is gone, or no longer selected.
func (f *feed) Delete(object any) error {
	m, err := meta.Accessor(object)
	if err == nil {
		f.cache.Delete(translate.Key{Kind: f.kind, Namespace: m.GetNamespace(), Name: m.GetName()})
	}
	return err
}

// Replace takes in all objects that there are.
func (f *feed) Replace(objects []any, _ string) error {
	all := make([]translate.Object, 0, len(objects))
	for _, o := range objects {
		t, err := f.trim(o)
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	f.cache.Replace(f.kind, all)
	f.first.Do(f.arrived)
	return nil
}

// Resync has nothing to do: what the cache knows it has passed on.
func (f *feed) Resync() error { return nil }

// QuietLibraries has what Kubernetes' libraries write without being told where go to log too, for debugging. It is for
// the whole process, once.
func QuietLibraries(log logrus.FieldLogger) { klog.SetLogger(libraryLog(log)) }

// libraryLog is where client-go writes. What somebody must know of it a contact says; the rest is for debugging.
func libraryLog(log logrus.FieldLogger) logr.Logger {
	return funcr.New(func(prefix, args string) { log.Debugf("client-go: %s %s", prefix, args) }, funcr.Options{})
}

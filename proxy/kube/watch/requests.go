package watch

import (
	"context"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/portald/portald/proxy/kube/translate"
)

// requests are those for the objects of one kind.
type requests struct {
	kind       translate.Kind
	labels     string // selectors
	fields     string
	labelsOnly atomic.Bool // the server does not support these fields
	status     *status
}

// send sends a request and records its result. Servers before Kubernetes 1.33 cannot select Services by ClusterIP: they
// return all, and translation ignores those without one.
func (r *requests) send(verb string, o metav1.ListOptions, send func(metav1.ListOptions) error) error {
	o.LabelSelector = r.labels
	if !r.labelsOnly.Load() {
		o.FieldSelector = r.fields
	}
	err := send(o)
	if r.kind == translate.KindService && o.FieldSelector != "" && apierrors.IsBadRequest(err) {
		r.labelsOnly.Store(true)
		o.FieldSelector = ""
		err = send(o)
	}
	r.status.result(request{r.kind, verb}, err)
	return err
}

// listWatch sends the requests of client-go's reflector.
func (r *requests) listWatch(objects *clientcache.ListWatch) *clientcache.ListWatch {
	return &clientcache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (list runtime.Object, err error) {
			err = r.send(verbList, o, func(o metav1.ListOptions) (err error) {
				list, err = objects.ListWithContext(ctx, o)
				return err
			})
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (events watch.Interface, err error) {
			err = r.send(verbWatch, o, func(o metav1.ListOptions) (err error) {
				events, err = objects.WatchWithContext(ctx, o)
				return err
			})
			return events, err
		},
	}
}

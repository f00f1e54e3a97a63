package watch

import (
	"context"
	"sync"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/portald/portald/platform/backoff"
	"github.com/portald/portald/proxy/kube/apiclient"
	"github.com/portald/portald/proxy/kube/translate"
)

const (
	// rangesGrace is how long the first state waits for ServiceCIDRs once all else was listed: rules that are written
	// without them are written again.
	rangesGrace = 500 * time.Millisecond
	rangesAgain = 2 * time.Second // after an error
	// rangesRetry is when a server that does not know ServiceCIDRs is asked again: it may have been upgraded.
	rangesRetry = 10 * time.Minute
)

// ranges watches ServiceCIDRs, which a server before Kubernetes 1.33 does not know. Services are served without them.
type ranges struct {
	*store
	requests  *requests
	probe     clientcache.ListWithContextFunc
	responded chan struct{} // closed once the server has answered, with ServiceCIDRs or without
	once      sync.Once
}

func (s *Source) newRanges() *ranges {
	r := &ranges{
		requests: &requests{kind: translate.KindServiceCIDR, status: s.status}, responded: make(chan struct{}),
	}
	objects := s.api.Objects(apiclient.ServiceCIDRs)
	r.probe = objects.ListWithContext
	r.store = s.store(r.requests, &networkingv1.ServiceCIDR{}, objects)
	r.listed = r.markResponded
	return r
}

func (r *ranges) markResponded() { r.once.Do(func() { close(r.responded) }) }

// wait waits until the server has answered, for a moment.
func (r *ranges) wait() {
	if r == nil {
		return
	}
	select {
	case <-r.responded:
	case <-time.After(rangesGrace):
	}
}

// run watches until ctx ends. A server without ServiceCIDRs is asked now and then whether it has them.
func (r *ranges) run(ctx context.Context) {
	status := r.requests.status
	for told := false; ctx.Err() == nil; {
		_, err := r.probe(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case err == nil, apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			r.store.run(ctx) // which logs a refusal that lasts
			return
		case !apierrors.IsNotFound(err): // so it is for all kinds, which is logged
			_ = backoff.Sleep(ctx, jitter(rangesAgain))
			continue
		case !told:
			status.log.Infof("API server %s has no ServiceCIDRs, which Kubernetes has from 1.33 on: using only "+
				"those of the setting serviceCIDRs", status.server)
		}
		told = true
		r.markResponded()
		_ = backoff.Sleep(ctx, jitter(rangesRetry))
	}
}

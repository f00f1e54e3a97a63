package watch

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/proxy/kube/translate"
)

// The verbs of RBAC that a Watch needs.
const (
	verbList  = "list"
	verbWatch = "watch"
)

// Times of saying that something is wrong with the API server.
const (
	repeatPeriod = time.Minute      // again at most this often, as long as nothing can be served without it
	refusalGrace = 20 * time.Second // a server that just started refuses much that it will allow
)

// request is a kind of request to the API server.
type request struct {
	kind translate.Kind
	verb string
}

// contact knows how requests to the API server go, and says what somebody has to know of it: that it is waited for,
// that it is lost and back again, and what it refuses. Safe for concurrent use.
type contact struct {
	server string
	log    logrus.FieldLogger

	mu      sync.Mutex
	synced  bool                   // everything has come once
	failing map[request]*lastingly // requests whose last try went wrong
	said    time.Time              // when it was said that the server does not answer; zero once it does
	trouble bool                   // something was said that is not over
}

// lastingly is a request that goes wrong again and again.
type lastingly struct {
	since time.Time
	said  time.Time // when it was said that it is refused; zero: never
}

func newContact(server string, log logrus.FieldLogger) *contact {
	return &contact{server: server, log: log, failing: map[request]*lastingly{}}
}

// complete notes that everything has come once.
func (c *contact) complete() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.synced = true
}

// result takes in how a request went.
func (c *contact) result(r request, err error) {
	switch {
	case err == nil:
		c.worked(r)
	case errors.Is(err, context.Canceled), apierrors.IsResourceExpired(err), apierrors.IsGone(err),
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge): // a matter of course: the library lists anew
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		c.refused(r, err)
	default:
		c.failed(r, err)
	}
}

// worked notes a success. A watch that stands needs no more of its kind.
func (c *contact) worked(r request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.failing, r)
	if r.verb == verbWatch {
		delete(c.failing, request{r.kind, verbList})
	}
	if len(c.failing) > 0 {
		return
	}
	c.said = time.Time{}
	if c.trouble {
		c.trouble = false
		c.log.Infof("API server %s answers again", c.server)
	}
}

// failed notes that the server did not answer as it should.
func (c *contact) failed(r request, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(r)
	if !c.due(c.said) {
		return
	}
	c.said, c.trouble = time.Now(), true
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the rest is the long URL of the request
	}
	what := "Waiting for it"
	if c.synced {
		what = "What is served stays as it is until it does"
	}
	c.log.Warnf("API server %s does not answer: %v. %s", c.server, err, what)
}

// refused notes that the server does not allow a request, and says so when that lasts.
func (c *contact) refused(r request, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.note(r)
	if time.Since(f.since) < refusalGrace || !c.due(f.said) {
		return
	}
	f.said, c.trouble = time.Now(), true
	advice := "let a ClusterRole grant this account the verb " + r.verb + " on " + resourceOf(r.kind)
	if apierrors.IsUnauthorized(err) {
		advice = "give this node a token or certificate that the server knows"
	}
	c.log.Errorf("API server %s refuses to %s %s: %v; %s", c.server, r.verb, resourceOf(r.kind), err, advice)
}

// note is what is known of a request that goes wrong.
func (c *contact) note(r request) *lastingly {
	f := c.failing[r]
	if f == nil {
		f = &lastingly{since: time.Now()}
		c.failing[r] = f
	}
	return f
}

// due tells whether something that was said then is to be said now: once, and again only while it keeps us from serving.
func (c *contact) due(said time.Time) bool {
	return said.IsZero() || !c.synced && time.Since(said) >= repeatPeriod
}

// resourceOf is the name of a kind in the words of RBAC.
func resourceOf(kind translate.Kind) string {
	switch kind {
	case translate.KindService:
		return "services"
	case translate.KindEndpointSlice:
		return "endpointslices.discovery.k8s.io"
	case translate.KindNode:
		return "nodes"
	}
	return string(kind)
}

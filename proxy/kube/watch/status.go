package watch

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/proxy/kube/translate"
)

// The RBAC verbs that a Source needs.
const (
	verbList  = "list"
	verbWatch = "watch"
)

// When failures of the API server are logged.
const (
	repeatPeriod = time.Minute      // at most this often, while Services cannot be served without it
	refusalGrace = 20 * time.Second // refusals must last: a server that just started refuses requests that it will allow
)

// request is a kind of request to the API server.
type request struct {
	kind translate.Kind
	verb string
}

// status follows which requests to the API server fail, and logs it when the server does not answer, answers again, or
// refuses requests. Safe for concurrent use.
type status struct {
	server string
	log    logrus.FieldLogger
	tell   func(answers bool, text string) // nil: nobody

	mu       sync.Mutex
	synced   bool                 // all objects were listed once
	failing  map[request]*failure // requests whose last try failed
	loggedAt time.Time            // when it was logged that the server does not answer; zero once it answers
	problem  bool                 // a failure was logged, and its end was not
}

// failure is a request that fails repeatedly.
type failure struct {
	refused  time.Time // since when it is refused; zero: it fails otherwise
	loggedAt time.Time // when it was logged that it is refused; zero: never
}

func newStatus(server string, log logrus.FieldLogger) *status {
	return &status{server: server, log: log, failing: map[request]*failure{}}
}

// complete records that all objects were listed once.
func (s *status) complete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = true
}

// result records how a request ended.
func (s *status) result(r request, err error) {
	switch {
	case err == nil:
		s.succeeded(r)
	case errors.Is(err, context.Canceled), apierrors.IsResourceExpired(err), apierrors.IsGone(err),
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge): // normal: the reflector lists again
	case apierrors.IsNotFound(err) && r.kind == translate.KindServiceCIDR: // an older server, in place of a newer one
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		s.refused(r, err)
	default:
		s.failed(r, err)
	}
}

// succeeded records a success. An established watch needs no list of its kind.
func (s *status) succeeded(r request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failing, r)
	if r.verb == verbWatch {
		delete(s.failing, request{r.kind, verbList})
	}
	if len(s.failing) > 0 {
		return
	}
	s.loggedAt = time.Time{}
	if s.problem {
		s.changed(true, fmt.Sprintf("API server %s answers again", s.server))
		s.log.Infof("API server %s answers again", s.server)
	}
}

// failed records that the server did not answer, or answered with an error that is no refusal.
func (s *status) failed(r request, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure(r).refused = time.Time{}
	if !s.due(s.loggedAt) {
		return
	}
	s.loggedAt = time.Now()
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the rest is the long URL of the request
	}
	s.changed(false, fmt.Sprintf("API server %s does not answer: %v", s.server, err))
	effect := "Waiting for it"
	if s.synced {
		effect = "Services are served as they are until it does"
	}
	s.log.Warnf("API server %s does not answer: %v. %s", s.server, err, effect)
}

// refused records that the server does not allow a request, and logs it if that persists.
func (s *status) refused(r request, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.failure(r)
	if f.refused.IsZero() {
		f.refused = time.Now()
	}
	if time.Since(f.refused) < refusalGrace || !s.due(f.loggedAt) {
		return
	}
	f.loggedAt = time.Now()
	s.changed(false, fmt.Sprintf("API server %s refuses to %s %s: %v", s.server, r.verb, resourceOf(r.kind), err))
	advice := "let a ClusterRole grant this account the verb " + r.verb + " on " + resourceOf(r.kind)
	if apierrors.IsUnauthorized(err) {
		advice = "give this node a token or certificate that the server accepts"
	}
	s.log.Errorf("API server %s refuses to %s %s: %v; %s", s.server, r.verb, resourceOf(r.kind), err, advice)
}

// changed is called with whether the server answers as it should, and tells so if that is new.
func (s *status) changed(answers bool, text string) {
	if s.problem == answers && s.tell != nil {
		s.tell(answers, text)
	}
	s.problem = !answers
}

// failure is the failure of a request, which begins now if it did not fail before.
func (s *status) failure(r request) *failure {
	f := s.failing[r]
	if f == nil {
		f = &failure{}
		s.failing[r] = f
	}
	return f
}

// due tells whether to log a failure that was last logged then: once, and repeatedly only before the first sync.
func (s *status) due(loggedAt time.Time) bool {
	return loggedAt.IsZero() || !s.synced && time.Since(loggedAt) >= repeatPeriod
}

// resourceOf is the RBAC resource of a kind.
func resourceOf(kind translate.Kind) string {
	switch kind {
	case translate.KindService:
		return "services"
	case translate.KindEndpointSlice:
		return "endpointslices.discovery.k8s.io"
	case translate.KindNode:
		return "nodes"
	case translate.KindServiceCIDR:
		return "servicecidrs.networking.k8s.io"
	}
	return string(kind)
}

// Package health tells probes and load balancers whether the daemon serves: for the node as a whole by Health, at
// /healthz and /livez, and for single Services by ServiceHealth, at their health-check ports.
//
//	h := health.New(syncPeriod, metrics)
//	h.QueuedUpdate() // a change waits
//	h.Updated()      // it was applied: now /healthz answers 200
//	h.Draining()     // the daemon ends: from now on 503
//
// The reconcile loop and the daemon report; nothing is checked here but Watch's function.
package health

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/portald/portald/proxy/httpserver"
	"github.com/portald/portald/proxy/metrics"
)

// Health is whether the proxy keeps up with its source. Safe for concurrent use.
//
// Live: nothing hangs. Healthy: live, no change has waited for a sync longer than the timeout, and rules are not known
// to be changed by others. Serving: healthy, synced at least once, not draining. Ready: serving, and the Node stays.
// kube-proxy differs twice: it is ready before its first sync, when traffic would come too early; and it is not live
// while changes wait, though a host that refuses them refuses a new process's too, and a restart would break what is
// served.
type Health struct {
	timeout time.Duration
	metrics *metrics.Metrics
	hung    func() error

	mu       sync.Mutex
	queued   time.Time // of the oldest change that waits; zero: none does
	updated  time.Time // of the last sync; zero: none yet
	draining bool
	leaving  bool // the Node is being removed
	damaged  bool // the host's rules were changed by others
}

// New returns the health of a proxy that resyncs each syncPeriod. A change may wait for two of them, as with
// kube-proxy. Answers are counted in m unless it is nil.
func New(syncPeriod time.Duration, m *metrics.Metrics) *Health {
	return &Health{timeout: 2 * syncPeriod, metrics: m, hung: func() error { return nil }}
}

// NewServer returns a server of /healthz and /livez.
func NewServer(o httpserver.Options, h *Health) *httpserver.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", h.Healthz)
	mux.HandleFunc("GET /livez", h.Livez)
	return httpserver.New(o, mux)
}

// Watch sets the check for hangs, which is called at each request: its error says what hangs, so that only a restart
// helps. It is called before the first request.
func (h *Health) Watch(hung func() error) { h.hung = hung }

// QueuedUpdate records that a change waits for a sync.
func (h *Health) QueuedUpdate() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.queued.IsZero() {
		h.queued = time.Now()
	}
}

// Updated records a sync that succeeded: no change waits.
func (h *Health) Updated() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queued = time.Time{}
	h.updated = time.Now()
}

// Damaged records that others changed the host's rules, until Repaired.
func (h *Health) Damaged() { h.setDamaged(true) }

// Repaired records that all rules were written.
func (h *Health) Repaired() { h.setDamaged(false) }

func (h *Health) setDamaged(is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.damaged = is
}

// Draining records that no new connections should be sent here from now on.
func (h *Health) Draining() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
}

// SetEligible records whether the Node may have new traffic from outside: not while it is being deleted or has the
// taint ToBeDeletedByClusterAutoscaler. The default is true.
func (h *Health) SetEligible(eligible bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaving = !eligible
}

// Serving tells whether connections that reach this node are served, as load balancers ask. A Node that is being
// deleted serves until it is.
func (h *Health) Serving() bool { return h.state().serving }

// state is the health at one moment.
type state struct {
	live, healthy, serving, ready, eligible bool
	updated, now                            time.Time
}

func (h *Health) state() state {
	live := h.hung() == nil
	h.mu.Lock()
	defer h.mu.Unlock()
	s := state{live: live, updated: h.updated, now: time.Now(), eligible: !h.draining && !h.leaving}
	s.healthy = s.live && !h.damaged && (h.queued.IsZero() || s.now.Sub(h.queued) < h.timeout)
	s.serving = s.healthy && !h.draining && !h.updated.IsZero()
	s.ready = s.serving && s.eligible
	return s
}

// response has the fields of kube-proxy's, except for its status by address family: here one sync is of both.
type response struct {
	LastUpdated  time.Time `json:"lastUpdated"`
	CurrentTime  time.Time `json:"currentTime"`
	NodeEligible *bool     `json:"nodeEligible,omitempty"`
	Healthy      bool      `json:"healthy"` // live, for /livez
}

// Healthz answers whether traffic should be sent here: 200 or 503. nodeEligible is false while draining, and while the
// Node is to be deleted.
func (h *Health) Healthz(w http.ResponseWriter, _ *http.Request) {
	s := h.state()
	code := reply(w, s, s.ready, s.healthy, &s.eligible)
	if h.metrics != nil {
		h.metrics.AnsweredHealthz(code)
	}
}

// Livez answers whether the proxy should be left to run: 200, or 503 when only a restart helps.
func (h *Health) Livez(w http.ResponseWriter, _ *http.Request) {
	s := h.state()
	code := reply(w, s, s.live, s.live, nil)
	if h.metrics != nil {
		h.metrics.AnsweredLivez(code)
	}
}

// reply answers and returns the status code. As with kube-proxy, an answer of 200 says that the last update is now,
// since clients take an old time for a proxy that hangs.
func reply(w http.ResponseWriter, s state, well, healthy bool, eligible *bool) int {
	a := response{LastUpdated: s.updated, CurrentTime: s.now, NodeEligible: eligible, Healthy: healthy}
	code := http.StatusServiceUnavailable
	if well {
		a.LastUpdated, code = s.now, http.StatusOK
	}
	httpserver.WriteHeader(w, "application/json", code)
	_ = json.NewEncoder(w).Encode(a) // it cannot fail but for a client that left
	return code
}

// Package zpages serves kube-proxy's paths: the metrics, and pages that show the daemon's mode, configuration, flags
// and status.
package zpages

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"

	"k8s.io/component-base/metrics/prometheus/slis"

	"github.com/portald/portald/proxy/httpserver"
	"github.com/portald/portald/proxy/metrics"
)

// Pages says what the metrics server shows beside the metrics.
type Pages struct {
	Mode         string                // at /proxyMode
	Config       func() map[string]any // at /configz as JSON: configurations by API group; nil = not found
	Profiling    bool                  // serve /debug/pprof/ and /debug/flags/v
	CommandLine  []string              // at /debug/pprof/cmdline: without secrets
	SetVerbosity func(string) error    // the level that was put to /debug/flags/v; nil = not found
	Flags        map[string]string     // at /flagz: flags and their values, without secrets; nil = not found
	View         http.Handler          // under /v1/: what is open now; nil = not found
	Page         http.Handler          // under /ui/: a page that shows it; nil = not found
}

// NewServer returns a server of kube-proxy's paths: the metrics at /metrics and /metrics/slis, the pages, and /healthz,
// which says, as kube-proxy's does here, only that the process answers.
func NewServer(o httpserver.Options, m *metrics.Metrics, p Pages) *httpserver.Server {
	return httpserver.New(o, handler(m, p))
}

// recorder is a mux that knows its paths.
type recorder struct {
	*http.ServeMux
	paths []string
}

// Handle adds a handler; the pattern may begin with a method.
func (r *recorder) Handle(pattern string, h http.Handler) {
	r.paths = append(r.paths, pattern[strings.Index(pattern, "/"):])
	r.ServeMux.Handle(pattern, h)
}

// HandleFunc is the same for a function.
func (r *recorder) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	r.Handle(pattern, http.HandlerFunc(h))
}

func handler(m *metrics.Metrics, p Pages) http.Handler {
	mux := &recorder{ServeMux: http.NewServeMux()}
	mux.Handle("GET /metrics", m.Handler())
	slis.SLIMetricsWithReset{}.Install(mux)
	mux.HandleFunc("GET /healthz", ping)
	mux.HandleFunc("GET /proxyMode", func(w http.ResponseWriter, _ *http.Request) {
		httpserver.Text(w, http.StatusOK, p.Mode)
	})
	if p.Config != nil {
		mux.HandleFunc("GET /configz", func(w http.ResponseWriter, _ *http.Request) { configz(w, p.Config()) })
	}
	if p.View != nil {
		mux.Handle("GET /v1/", p.View)
	}
	if p.Page != nil {
		mux.Handle("/ui/", http.StripPrefix("/ui", p.Page))
	}
	if p.Profiling {
		profiling(mux, p.CommandLine)
	}
	if p.Profiling && p.SetVerbosity != nil {
		mux.HandleFunc("PUT /debug/flags/v", func(w http.ResponseWriter, r *http.Request) { verbosity(w, r, p.SetVerbosity) })
	}
	if p.Flags != nil {
		mux.HandleFunc("GET /flagz", flagz(p.Flags))
	}
	mux.HandleFunc("GET /statusz", statusz(m.Began(), append(mux.paths, "/statusz")))
	return mux
}

func profiling(mux *recorder, line []string) {
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", func(w http.ResponseWriter, _ *http.Request) {
		httpserver.Text(w, http.StatusOK, strings.Join(line, "\x00"))
	})
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
}

// ping answers, and counts that for /metrics/slis under the name that it has with Kubernetes' own programs.
func ping(w http.ResponseWriter, r *http.Request) {
	_ = slis.ObserveHealthcheck(r.Context(), "ping", "healthz", slis.Success) // its error is always nil
	httpserver.Text(w, http.StatusOK, "ok")
}

func configz(w http.ResponseWriter, config map[string]any) {
	text, err := json.Marshal(config)
	if err != nil {
		httpserver.Text(w, http.StatusInternalServerError, fmt.Sprintf("write configuration: %v\n", err))
		return
	}
	httpserver.WriteHeader(w, "application/json", http.StatusOK)
	_, _ = w.Write(text)
}

// maxFlag bounds the value of a flag, in bytes.
const maxFlag = 64

func verbosity(w http.ResponseWriter, r *http.Request, set func(string) error) {
	value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFlag))
	if err == nil {
		err = set(string(value))
	}
	if err != nil {
		httpserver.Text(w, http.StatusBadRequest, fmt.Sprintf("set verbosity: %v\n", err))
		return
	}
	httpserver.Text(w, http.StatusOK, fmt.Sprintf("verbosity is %s now\n", value))
}

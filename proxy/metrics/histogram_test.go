package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// scrape is the metrics as a Prometheus gets them that asks for OpenMetrics.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	return w.Body.String()
}

// lineOf is the line that begins so.
func lineOf(text, begin string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begin) {
			return line
		}
	}
	return ""
}

func TestExemplars(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4")
	slow := sample()
	slow.ID, slow.Duration = 8, 2*time.Second
	observe(m, sample())
	observe(m, slow)
	for line, want := range map[string][]string{
		`portald_connection_duration_seconds_bucket{protocol="tcp",le="0.1"} 1 # `: {
			`record_id="7"`, `service="shop/cart:http"`, `} 0.0120`, ` 1.7952`},
		`portald_connection_duration_seconds_bucket{protocol="tcp",le="10.0"} 2 # `:                       {`record_id="8"`},
		`portald_service_duration_seconds_bucket{protocol="tcp",service="shop/cart:http",le="10.0"} 2 # `: {`record_id="8"`},
	} {
		got := lineOf(scrape(t, m), line)
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("no %s in %q", part, got)
			}
		}
	}
}

// Kubernetes' longest names make an exemplar longer than there may be: it is of the record alone.
func TestExemplarOfLongNames(t *testing.T) {
	m, r := NewMetrics(DefaultLimits(), "IPv4"), sample()
	r.Service = service.PortName{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("s", 63),
		Port: strings.Repeat("p", 15), Protocol: inet.TCP}
	observe(m, r)
	got := lineOf(scrape(t, m), `portald_connection_duration_seconds_bucket{protocol="tcp",le="0.1"}`)
	if !strings.Contains(got, ` 1 # {record_id="7"} 0.012`) {
		t.Error(got)
	}
}

// Prometheus asks for OpenMetrics by default, where the name of a counter that does not end in _total gets that: no
// series may change its name with the format.
func TestCountersKeepTheirNames(t *testing.T) {
	families, err := prometheus.Gatherers{exercised(t).registry, legacyregistry.DefaultGatherer}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetType().String() == "COUNTER" && !strings.HasSuffix(f.GetName(), "_total") {
			t.Error(f.GetName())
		}
	}
}

package zpages

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/proxy/metrics"
)

// askPage answers a request for a page of a server that has all of them.
func askPage(path, accept string) *httptest.ResponseRecorder {
	m := metrics.NewMetrics(metrics.DefaultLimits(), "IPv4")
	s := handler(m, Pages{Flags: map[string]string{"v": "2", "config": "/etc/p.yaml"},
		Profiling: true, SetVerbosity: func(string) error { return nil }})
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

const (
	flagsObject  = ";as=Flagz;v=v1beta1;g=config.k8s.io"
	statusObject = ";as=Statusz;v=v1beta1;g=config.k8s.io"
)

func TestFlagsAndStatusAsText(t *testing.T) {
	for _, accept := range []string{"", "text/plain", "text/html, */*;q=0.8", "application/json, text/plain"} {
		for path, has := range map[string]string{
			"/flagz": "\nconfig=/etc/p.yaml\nv=2\n", "/statusz": "\nEmulation version: ",
		} {
			w := askPage(path, accept)
			if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") ||
				!strings.Contains(w.Body.String(), has) {
				t.Errorf("%s for %q: %d %v %s", path, accept, w.Code, w.Header(), w.Body)
			}
		}
	}
	const paths = "\nPaths: /configz /debug /flagz /healthz /metrics /proxyMode /statusz\n"
	if body := askPage("/statusz", "").Body.String(); !strings.Contains(body, strings.Replace(paths, "/configz ", "", 1)) {
		t.Errorf("paths of\n%s", body)
	}
}

func TestFlagsAndStatusAsObjects(t *testing.T) {
	w := askPage("/flagz", "application/yaml;q=0, application/json"+flagsObject)
	want := `{"kind":"Flagz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"portald"},` +
		`"flags":{"config":"/etc/p.yaml","v":"2"}}` + "\n"
	if w.Body.String() != want || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%v\n%s, want\n%s", w.Header(), w.Body, want)
	}
	w = askPage("/statusz", "application/yaml"+strings.Replace(statusObject, "beta", "alpha", 1))
	var page statusPage
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page.APIVersion != "config.k8s.io/v1alpha1" ||
		page.StartTime.IsZero() || page.UptimeSeconds < 0 || !slices.Contains(page.Paths, "/statusz") {
		t.Errorf("%v: %s", err, w.Body)
	}
	if w.Header().Get("Content-Type") != "application/yaml" || !strings.HasPrefix(w.Header().Get("Warning"), "299") {
		t.Errorf("a deprecated version: %v", w.Header())
	}
	for _, accept := range []string{
		"application/json", "text/html", "application/json" + statusObject, "text/plain;q=0", "application/protobuf",
		"application/json;as=Flagz;v=v1;g=config.k8s.io", "application/json;as=Flagz;v=v1beta1", ";;",
	} {
		w := askPage("/flagz", accept)
		if w.Code != http.StatusNotAcceptable || !strings.Contains(w.Body.String(), flagsObject) {
			t.Errorf("%q: %d %s", accept, w.Code, w.Body)
		}
	}
}

package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/portald/portald/portal/service"
)

// The names of pods are written by tenants. No label has what is not printable, and the page is there.
func TestLabelsArePrintable(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4")
	port := cartPort()
	port.Endpoints[0].Pod = "shop/\x1b[2J\x9b31m\u009b"
	port.Endpoints[1].Pod = "shop/" + strings.Repeat("x", 309) + "\u202e" // cut within a character
	m.ReplacePorts([]*service.Port{port})
	observe(m, sample())
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `pod="shop/\\x1b[2J\\x9b31m\\u009b"`) {
		t.Errorf("%d %.2000s", w.Code, w.Body)
	}
	if i := strings.IndexFunc(w.Body.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("%q", w.Body.String()[max(0, i-100):i+10])
	}
}

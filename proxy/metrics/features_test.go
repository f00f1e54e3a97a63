package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestFeatures(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4")
	for _, on := range []bool{true, false} {
		ShowFeatures(Features{ExternalIPs: on, ServiceCIDRs: on})
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for _, line := range []string{
			`kubernetes_feature_enabled{name="AllowServiceExternalIPs",stage=""} ` + choose(on),
			`kubernetes_feature_enabled{name="MultiCIDRServiceAllocator",stage=""} ` + choose(on),
			`kubernetes_feature_enabled{name="ComponentFlagz",stage="BETA"} 1`,
			`kubernetes_feature_enabled{name="WinDSR",stage=""} 0`,
		} {
			if !strings.Contains(w.Body.String(), line+"\n") {
				t.Errorf("no line %s", line)
			}
		}
	}
}

func choose(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

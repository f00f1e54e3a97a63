package metrics

import (
	"testing"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// A dial that was overtaken is no failure, neither of the Service nor of the endpoint.
func TestMetricsOfHedges(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4")
	m.ReplacePorts([]*service.Port{cartPort()})
	won := sample()
	won.Attempts[0].Err, won.Attempts[1].Hedge = record.Overtaken, true
	observe(m, won)
	lost := sample()
	lost.Attempts[0].Err, lost.Attempts[0].Hedge = record.Overtaken, true
	observe(m, lost)
	failed := sample()
	failed.Attempts[0].Hedge, failed.Attempts[0].Times = true, 2
	observe(m, failed)
	wantMetrics(t, m, `
# HELP portald_dial_attempts_total Attempts to reach an endpoint, by finished connections and UDP sessions.
# TYPE portald_dial_attempts_total counter
portald_dial_attempts_total{protocol="tcp",result="failed",service="shop/cart:http"} 2
portald_dial_attempts_total{protocol="tcp",result="ok",service="shop/cart:http"} 3
portald_dial_attempts_total{protocol="tcp",result="overtaken",service="shop/cart:http"} 2
# HELP portald_endpoint_dial_attempts_total Attempts to reach the endpoint, by finished connections and UDP sessions.
# TYPE portald_endpoint_dial_attempts_total counter
portald_endpoint_dial_attempts_total{endpoint="10.1.0.2:8080",pod="shop/cart-b",protocol="tcp",result="failed",service="shop/cart:http"} 2
portald_endpoint_dial_attempts_total{endpoint="10.1.0.2:8080",pod="shop/cart-b",protocol="tcp",result="ok",service="shop/cart:http"} 0
portald_endpoint_dial_attempts_total{endpoint="10.1.0.2:8080",pod="shop/cart-b",protocol="tcp",result="overtaken",service="shop/cart:http"} 2
portald_endpoint_dial_attempts_total{endpoint="10.1.0.3:8080",pod="shop/cart-a",protocol="tcp",result="failed",service="shop/cart:http"} 0
portald_endpoint_dial_attempts_total{endpoint="10.1.0.3:8080",pod="shop/cart-a",protocol="tcp",result="ok",service="shop/cart:http"} 3
# HELP portald_hedged_dials_total Dials that began while another was in progress, by whether they served.
# TYPE portald_hedged_dials_total counter
portald_hedged_dials_total{protocol="tcp",result="lost",service="shop/cart:http"} 3
portald_hedged_dials_total{protocol="tcp",result="won",service="shop/cart:http"} 1
`, "portald_dial_attempts_total", "portald_endpoint_dial_attempts_total", "portald_hedged_dials_total")
}

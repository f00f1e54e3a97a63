package metrics

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// cartPort is the service port of record, with both endpoints that it dials.
func cartPort() *service.Port {
	first, second := at("10.1.0.2:8080", "ready"), at("10.1.0.3:8080", "ready")
	first.Pod, second.Pod = "shop/cart-b", "shop/cart-a"
	return &service.Port{Name: cart, Endpoints: []service.Endpoint{first, second}}
}

// endpointSeries counts the connections of endpoints.
func endpointSeries(t *testing.T, m *Metrics, want int) {
	t.Helper()
	n, err := testutil.GatherAndCount(m.registry, "portald_endpoint_bytes_total")
	if err != nil || n != 2*want {
		t.Errorf("%d series of two directions of %d endpoints: %v", n, want, err)
	}
}

func TestMetricsOfEndpoints(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4")
	observe(m, sample())
	endpointSeries(t, m, 0) // whose they are is known after the first sync
	m.ReplacePorts([]*service.Port{cartPort()})
	reset := sample()
	reset.Outcome = record.OutcomeEndpointReset
	observe(m, reset)
	stuck := sample()
	stuck.Outcome, stuck.Connect, stuck.Endpoint = record.OutcomeDialFailed, -1, service.Endpoint{}
	stuck.Attempts[0].Times, stuck.Attempts[1].Err = 7, "timeout"
	observe(m, stuck)
	wantMetrics(t, m, `
# HELP portald_endpoint_connections_total Finished connections and UDP sessions that reached the endpoint.
# TYPE portald_endpoint_connections_total counter
portald_endpoint_connections_total{endpoint="10.1.0.2:8080",outcome="ok",pod="shop/cart-b",protocol="tcp",service="shop/cart:http"} 0
portald_endpoint_connections_total{endpoint="10.1.0.2:8080",outcome="endpoint_reset",pod="shop/cart-b",protocol="tcp",service="shop/cart:http"} 0
portald_endpoint_connections_total{endpoint="10.1.0.2:8080",outcome="endpoint_lost",pod="shop/cart-b",protocol="tcp",service="shop/cart:http"} 0
portald_endpoint_connections_total{endpoint="10.1.0.2:8080",outcome="other",pod="shop/cart-b",protocol="tcp",service="shop/cart:http"} 0
portald_endpoint_connections_total{endpoint="10.1.0.3:8080",outcome="ok",pod="shop/cart-a",protocol="tcp",service="shop/cart:http"} 1
portald_endpoint_connections_total{endpoint="10.1.0.3:8080",outcome="endpoint_reset",pod="shop/cart-a",protocol="tcp",service="shop/cart:http"} 1
portald_endpoint_connections_total{endpoint="10.1.0.3:8080",outcome="endpoint_lost",pod="shop/cart-a",protocol="tcp",service="shop/cart:http"} 0
portald_endpoint_connections_total{endpoint="10.1.0.3:8080",outcome="other",pod="shop/cart-a",protocol="tcp",service="shop/cart:http"} 0
# HELP portald_endpoint_dial_attempts_total Attempts to reach the endpoint, by finished connections and UDP sessions.
# TYPE portald_endpoint_dial_attempts_total counter
portald_endpoint_dial_attempts_total{endpoint="10.1.0.2:8080",pod="shop/cart-b",protocol="tcp",result="ok",service="shop/cart:http"} 0
portald_endpoint_dial_attempts_total{endpoint="10.1.0.2:8080",pod="shop/cart-b",protocol="tcp",result="failed",service="shop/cart:http"} 9
portald_endpoint_dial_attempts_total{endpoint="10.1.0.3:8080",pod="shop/cart-a",protocol="tcp",result="ok",service="shop/cart:http"} 2
portald_endpoint_dial_attempts_total{endpoint="10.1.0.3:8080",pod="shop/cart-a",protocol="tcp",result="failed",service="shop/cart:http"} 1
# HELP portald_endpoint_dial_seconds Time of successful dials of the endpoint.
# TYPE portald_endpoint_dial_seconds summary
portald_endpoint_dial_seconds_sum{endpoint="10.1.0.2:8080",pod="shop/cart-b",protocol="tcp",service="shop/cart:http"} 0
portald_endpoint_dial_seconds_count{endpoint="10.1.0.2:8080",pod="shop/cart-b",protocol="tcp",service="shop/cart:http"} 0
portald_endpoint_dial_seconds_sum{endpoint="10.1.0.3:8080",pod="shop/cart-a",protocol="tcp",service="shop/cart:http"} 0.0003
portald_endpoint_dial_seconds_count{endpoint="10.1.0.3:8080",pod="shop/cart-a",protocol="tcp",service="shop/cart:http"} 2
`, "portald_endpoint_connections_total", "portald_endpoint_dial_attempts_total", "portald_endpoint_dial_seconds")
}

// What the kernel told of the sockets towards an endpoint is added up, for Prometheus and by address.
func TestTCPOfEndpoints(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4")
	m.ReplacePorts([]*service.Port{cartPort()})
	observe(m, sample()) // of which it told nothing
	for _, told := range []record.TCPInfo{
		{Known: true, RTT: time.Millisecond, Retransmits: 3}, {Known: true, RTT: 2 * time.Millisecond, OutOfOrder: 5},
	} {
		r := sample()
		r.EndpointTCP = told
		observe(m, r)
	}
	at := `{endpoint="10.1.0.3:8080",pod="shop/cart-a",protocol="tcp",service="shop/cart:http"} `
	var want strings.Builder
	for _, of := range []struct{ name, kind, help, series string }{
		{"out_of_order_total", "counter", "Segments of the endpoint that came out of order, by finished TCP connections.",
			"portald_endpoint_out_of_order_total" + at + "5"},
		{"retransmits_total", "counter", "Segments that were sent to the endpoint again, by finished TCP connections.",
			"portald_endpoint_retransmits_total" + at + "3"},
		{"rtt_seconds", "summary", "Smoothed round-trip time to the endpoint, at the end of each TCP connection.",
			"portald_endpoint_rtt_seconds_sum" + at + "0.003\nportald_endpoint_rtt_seconds_count" + at + "2"},
	} {
		name := "portald_endpoint_" + of.name
		fmt.Fprintf(&want, "# HELP %s %s\n# TYPE %s %s\n%s\n", name, of.help, name, of.kind, of.series)
	}
	wantMetrics(t, m, want.String(), "portald_endpoint_out_of_order_total", "portald_endpoint_retransmits_total",
		"portald_endpoint_rtt_seconds")
	all := m.EndpointTCP(cartPort().Name)
	if got := all[netip.MustParseAddrPort("10.1.0.3:8080")]; len(all) != 1 ||
		got != (TCPTotals{2, 3 * time.Millisecond, 3, 5}) {
		t.Errorf("%+v", all)
	}
}

// An endpoint that is gone, or whose address is another pod's now, leaves no series, whenever its last connection ends.
func TestEndpointsGo(t *testing.T) {
	m, port := NewMetrics(DefaultLimits(), "IPv4"), cartPort()
	m.ReplacePorts([]*service.Port{port})
	observe(m, sample())
	endpointSeries(t, m, 2)
	fewer := &service.Port{Name: cart, Endpoints: port.Endpoints[:1]}
	m.UpdatePorts([]service.Change{{Name: cart, Port: fewer}})
	endpointSeries(t, m, 1)
	observe(m, sample()) // of both
	endpointSeries(t, m, 1)
	again := cartPort()
	again.Endpoints[0].Pod = "shop/cart-c"
	m.UpdatePorts([]service.Change{{Name: cart, Port: again}})
	endpointSeries(t, m, 0)
	observe(m, sample())
	endpointSeries(t, m, 2)
	m.Forget(cart)
	m.UpdatePorts([]service.Change{{Name: cart}})
	endpointSeries(t, m, 0)
	if used := m.conns.endpoints.used; used != 0 {
		t.Errorf("%d places of endpoints that are gone", used)
	}
}

// total returns the sum of all series of a metric, by the value of one of its labels.
func total(t *testing.T, m *Metrics, name, label string) map[string]float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			for _, l := range one.GetLabel() {
				if f.GetName() == name && l.GetName() == label {
					out[l.GetValue()] += one.GetCounter().GetValue() + float64(one.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	return out
}

// crowd has so many Services of a namespace, of one endpoint each, carry a connection.
func crowd(m *Metrics, namespace string, n int) {
	for i := range n {
		r := sample()
		r.Service.Namespace, r.Service.Name = namespace, fmt.Sprint(i)
		r.Attempts = r.Attempts[1:]
		m.UpdatePorts([]service.Change{{Name: r.Service,
			Port: &service.Port{Name: r.Service, Endpoints: []service.Endpoint{r.Endpoint}}}})
		observe(m, r)
	}
}

// Counts beyond a limit are in "other": nothing is lost, nothing goes back, and a namespace that takes all it can get
// leaves places to others.
func TestLimits(t *testing.T) {
	m := NewMetrics(Limits{Services: 18, Histograms: 18, Endpoints: 18}, "IPv4")
	names := []string{"portald_connections_total", "portald_service_duration_seconds",
		"portald_endpoint_connections_total"}
	want := func(own int, others float64) {
		t.Helper()
		for _, name := range names {
			got := total(t, m, name, "service")
			if len(got) != own+1 || got[other] != others {
				t.Errorf("%s: %v, want %d of their own and %v others", name, got, own, others)
			}
		}
	}
	crowd(m, "greedy", 100)
	want(16, 84)
	crowd(m, "small", 1)
	want(17, 84)
	if got := total(t, m, names[0], "service")["small/0:http"]; got != 1 {
		t.Errorf("small/0:http has %v connections", got)
	}
	for i := range 10 { // of the greedy, some with places
		m.Forget(service.PortName{Namespace: "greedy", Name: fmt.Sprint(i), Port: "http", Protocol: inet.TCP})
	}
	for _, name := range names {
		if got := total(t, m, name, "service")[other]; got != 84 {
			t.Errorf("%s: %v others, want them to stay", name, got)
		}
	}
	if all := total(t, m, "portald_connection_duration_seconds", "protocol")["tcp"]; all != 101 {
		t.Errorf("%v connections in the histogram of TCP, want all that ever ended", all)
	}
}

// Without a place for endpoints they cost nothing.
func TestEndpointsOff(t *testing.T) {
	m := NewMetrics(Limits{Services: 10}, "IPv4")
	crowd(m, "shop", 1)
	if got := total(t, m, "portald_endpoint_connections_total", "service"); len(got) != 0 {
		t.Error(got)
	}
	if got := total(t, m, "portald_service_duration_seconds", "service"); got[other] != 1 || len(got) != 1 {
		t.Error(got)
	}
}

// The pod of an endpoint may be any text that a tenant wrote.
func TestPodsOfAnyName(t *testing.T) {
	m, port := NewMetrics(DefaultLimits(), "IPv4"), cartPort()
	port.Endpoints[0].Pod, port.Endpoints[1].Pod = "shop/\xff", strings.Repeat("x", 1<<20)
	m.ReplacePorts([]*service.Port{port})
	observe(m, sample())
	endpointSeries(t, m, 2)
	endpointSeries(t, m, 2)
	for pod := range total(t, m, "portald_endpoint_bytes_total", "pod") {
		if pod != `shop/\xff` && len(pod) != 317 {
			t.Errorf("pod %.40q of %d bytes", pod, len(pod))
		}
	}
}

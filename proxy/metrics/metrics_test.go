package metrics

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/record"
)

// wantMetrics compares the metrics of these names with their exposition.
func wantMetrics(t *testing.T, m *Metrics, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// observe counts a record as the data path does.
func observe(m *Metrics, r *record.Record) { m.Observer(r.Service, nil).Observe(r) }

// exercised returns metrics of which every one has been used.
func exercised(t *testing.T) *Metrics {
	m := NewMetrics(DefaultLimits(), "IPv4", "IPv6")
	m.WatchKernelRecords(func() uint64 { return 3 }, nil)
	m.KernelEnded(&record.Record{Service: service.PortName{Namespace: "shop", Name: "cart", Protocol: inet.TCP},
		Outcome: record.OutcomeReset})
	m.WatchLog(func() uint64 { return 4 }, func() uint64 { return 2 })
	m.WatchExport(func() uint64 { return 8 }, func() uint64 { return 6 }, func() uint64 { return 7 })
	m.WatchSampling(func() uint64 { return 9 })
	m.WatchActive(func(yield func(service.PortName, int)) { yield(cart, 3) })
	m.WatchDataPath(busy())
	m.WatchDrains(func() int { return 2 })
	m.WatchFiles("manifests", func() int { return 3 })
	m.WatchFiles("configuration", func() int { return 0 })
	history := changes.NewLog(1)
	history.Add(changes.Change{Kind: changes.EndpointAdded})
	m.WatchHistory(history)
	m.WatchKeeper(func() bool { return true }, func() uint64 { return 5 })
	m.TookOver(20, 1)
	m.Recovered(7, 2, 1)
	m.WatchChanges(func() Changes { return Changes{Services: 5, Endpoints: 7, EndpointsPending: 2} })
	m.ReplacePorts([]*service.Port{cartPort()})
	hedged := sample()
	hedged.Attempts[1].Hedge = true
	hedged.EndpointTCP = record.TCPInfo{Known: true, RTT: time.Millisecond}
	observe(m, hedged)
	again := sample()
	again.Replays = 3
	observe(m, again)
	observe(m, stray())
	m.Refused("ports")
	m.AcceptError("descriptors")
	m.Queued(time.Unix(1000, 0))
	m.Synced(true, time.Unix(1000, 0), time.Unix(1000, 0).Add(30*time.Millisecond))
	m.Synced(false, time.Unix(2000, 0), time.Unix(2000, 0).Add(2*time.Millisecond))
	m.NFTablesFailed("IPv4")
	m.NFTablesCleanupFailed("IPv6")
	m.WatchInvalidDropped(func() (uint64, bool) { return 6, true })
	m.WatchReceiveBuffers(nil)
	m.ReceiveBufferFull(cartPort().Name, 1)
	m.WatchRefused(func() { m.RefusedPackets(cartPort().Name, 1, time.Unix(3000, 0)) }, nil)
	m.RestoreFailed("IPv6", true)
	m.Rules("IPv4", "nat", 12)
	m.RulesLast("IPv4", "nat", 3)
	m.Programmed([]time.Time{m.began.Add(time.Second)}, m.began.Add(3*time.Second))
	m.AnsweredHealthz(200)
	m.AnsweredLivez(503)
	return m
}

func TestMetricsOfConnections(t *testing.T) {
	m := exercised(t)
	observe(m, sample())
	wantMetrics(t, m, `
# HELP portald_connections_total Finished connections and UDP sessions.
# TYPE portald_connections_total counter
portald_connections_total{outcome="ok",portal="ClusterIP",protocol="tcp",service="shop/cart:http"} 3
portald_connections_total{outcome="not_a_portal",portal="",protocol="udp",service="shop/dns"} 1
# HELP portald_connections_active Open connections and UDP sessions.
# TYPE portald_connections_active gauge
portald_connections_active{protocol="tcp",service="shop/cart:http"} 3
# HELP portald_connection_bytes_total Bytes carried by finished connections and UDP sessions.
# TYPE portald_connection_bytes_total counter
portald_connection_bytes_total{direction="from_client",protocol="tcp",service="shop/cart:http"} 3702
portald_connection_bytes_total{direction="from_endpoint",protocol="tcp",service="shop/cart:http"} 135003
portald_connection_bytes_total{direction="from_client",protocol="udp",service="shop/dns"} 0
portald_connection_bytes_total{direction="from_endpoint",protocol="udp",service="shop/dns"} 0
# HELP portald_dial_attempts_total Attempts to reach an endpoint, by finished connections and UDP sessions.
# TYPE portald_dial_attempts_total counter
portald_dial_attempts_total{protocol="tcp",result="failed",service="shop/cart:http"} 3
portald_dial_attempts_total{protocol="tcp",result="ok",service="shop/cart:http"} 3
portald_dial_attempts_total{protocol="udp",result="failed",service="shop/dns"} 0
portald_dial_attempts_total{protocol="udp",result="ok",service="shop/dns"} 0
# HELP portald_replays_total Requests that were sent again to another endpoint because the first did not respond (retry-on).
# TYPE portald_replays_total counter
portald_replays_total{protocol="tcp",service="shop/cart:http"} 3
# HELP portald_connect_seconds Time from the accept until an endpoint was connected, retries included.
# TYPE portald_connect_seconds histogram
portald_connect_seconds_bucket{protocol="tcp",le="0.0005"} 3
portald_connect_seconds_bucket{protocol="tcp",le="0.001"} 3
portald_connect_seconds_bucket{protocol="tcp",le="0.005"} 3
portald_connect_seconds_bucket{protocol="tcp",le="0.025"} 3
portald_connect_seconds_bucket{protocol="tcp",le="0.25"} 3
portald_connect_seconds_bucket{protocol="tcp",le="0.75"} 3
portald_connect_seconds_bucket{protocol="tcp",le="1.75"} 3
portald_connect_seconds_bucket{protocol="tcp",le="3.75"} 3
portald_connect_seconds_bucket{protocol="tcp",le="+Inf"} 3
portald_connect_seconds_sum{protocol="tcp"} 0.001203702
portald_connect_seconds_count{protocol="tcp"} 3
portald_connect_seconds_bucket{protocol="udp",le="0.0005"} 0
portald_connect_seconds_bucket{protocol="udp",le="0.001"} 0
portald_connect_seconds_bucket{protocol="udp",le="0.005"} 0
portald_connect_seconds_bucket{protocol="udp",le="0.025"} 0
portald_connect_seconds_bucket{protocol="udp",le="0.25"} 0
portald_connect_seconds_bucket{protocol="udp",le="0.75"} 0
portald_connect_seconds_bucket{protocol="udp",le="1.75"} 0
portald_connect_seconds_bucket{protocol="udp",le="3.75"} 0
portald_connect_seconds_bucket{protocol="udp",le="+Inf"} 0
portald_connect_seconds_sum{protocol="udp"} 0
portald_connect_seconds_count{protocol="udp"} 0
# HELP portald_accept_errors_total Connections that could not be accepted, by reason.
# TYPE portald_accept_errors_total counter
portald_accept_errors_total{reason="descriptors"} 1
# HELP portald_connection_records_dropped_total Connection records that never reached the connection log.
# TYPE portald_connection_records_dropped_total counter
portald_connection_records_dropped_total 4
# HELP portald_connection_export_dropped_total Connection records that the OpenTelemetry collector did not get.
# TYPE portald_connection_export_dropped_total counter
portald_connection_export_dropped_total 8
# HELP portald_changes_export_dropped_total Changes on this node that the OpenTelemetry collector did not get.
# TYPE portald_changes_export_dropped_total counter
portald_changes_export_dropped_total 6
# HELP portald_connection_export_errors_total Failed attempts to export a batch of connection records or changes.
# TYPE portald_connection_export_errors_total counter
portald_connection_export_errors_total 7
# HELP portald_connection_records_sampled_out_total Connection records that sampling left out of the connection log.
# TYPE portald_connection_records_sampled_out_total counter
portald_connection_records_sampled_out_total 9
`, "portald_connections_total", "portald_connections_active", "portald_connection_bytes_total",
		"portald_dial_attempts_total", "portald_replays_total", "portald_connect_seconds", "portald_accept_errors_total",
		"portald_connection_records_dropped_total", "portald_connection_records_sampled_out_total",
		"portald_connection_export_dropped_total", "portald_changes_export_dropped_total",
		"portald_connection_export_errors_total")
}

func TestMetricsOfSyncs(t *testing.T) {
	m := exercised(t)
	wantMetrics(t, m, `
# HELP kubeproxy_sync_proxy_rules_last_timestamp_seconds When the rules were last synced, Unix time.
# TYPE kubeproxy_sync_proxy_rules_last_timestamp_seconds gauge
kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 2000.002
kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv6"} 2000.002
# HELP kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds When a sync of the rules was last queued, Unix time.
# TYPE kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds gauge
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} 1000
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv6"} 1000
# HELP kubeproxy_sync_proxy_rules_endpoint_changes_pending Changes of endpoints not yet synced.
# TYPE kubeproxy_sync_proxy_rules_endpoint_changes_pending gauge
kubeproxy_sync_proxy_rules_endpoint_changes_pending 2
# HELP kubeproxy_sync_proxy_rules_endpoint_changes_total Changes of endpoints seen.
# TYPE kubeproxy_sync_proxy_rules_endpoint_changes_total counter
kubeproxy_sync_proxy_rules_endpoint_changes_total 7
# HELP kubeproxy_sync_proxy_rules_service_changes_pending Changes of Services not yet synced.
# TYPE kubeproxy_sync_proxy_rules_service_changes_pending gauge
kubeproxy_sync_proxy_rules_service_changes_pending 0
# HELP kubeproxy_sync_proxy_rules_service_changes_total Changes of Services seen.
# TYPE kubeproxy_sync_proxy_rules_service_changes_total counter
kubeproxy_sync_proxy_rules_service_changes_total 5
# HELP kubeproxy_sync_proxy_rules_iptables_total Rules held in iptables.
# TYPE kubeproxy_sync_proxy_rules_iptables_total gauge
kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="nat"} 12
# HELP kubeproxy_sync_proxy_rules_iptables_last Rules written to iptables in the last sync.
# TYPE kubeproxy_sync_proxy_rules_iptables_last gauge
kubeproxy_sync_proxy_rules_iptables_last{ip_family="IPv4",table="nat"} 3
# HELP kubeproxy_sync_proxy_rules_iptables_restore_failures_total Failed iptables-restore calls.
# TYPE kubeproxy_sync_proxy_rules_iptables_restore_failures_total counter
kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"} 0
kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv6"} 1
# HELP kubeproxy_sync_proxy_rules_nftables_sync_failures_total Failed transactions of nftables.
# TYPE kubeproxy_sync_proxy_rules_nftables_sync_failures_total counter
kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv4"} 1
kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv6"} 0
# HELP kubeproxy_proxy_healthz_total Answers to /healthz, by status code.
# TYPE kubeproxy_proxy_healthz_total counter
kubeproxy_proxy_healthz_total{code="200"} 1
# HELP kubeproxy_proxy_livez_total Answers to /livez, by status code.
# TYPE kubeproxy_proxy_livez_total counter
kubeproxy_proxy_livez_total{code="503"} 1
`, syncPrefix+"last_timestamp_seconds", syncPrefix+"last_queued_timestamp_seconds",
		syncPrefix+"endpoint_changes_pending", syncPrefix+"endpoint_changes_total",
		syncPrefix+"service_changes_pending", syncPrefix+"service_changes_total",
		syncPrefix+"iptables_total", syncPrefix+"iptables_last",
		syncPrefix+"iptables_restore_failures_total", syncPrefix+"nftables_sync_failures_total",
		"kubeproxy_proxy_healthz_total", "kubeproxy_proxy_livez_total")
	for name, want := range map[string]uint64{syncPrefix + "duration_seconds": 2,
		"kubeproxy_sync_full_proxy_rules_duration_seconds":    1,
		"kubeproxy_sync_partial_proxy_rules_duration_seconds": 1} {
		if got := samples(t, m, name); got != 2*want {
			t.Errorf("%s has %d samples in two families, want %d", name, got, 2*want)
		}
	}
}

// samples is the number of samples in a histogram, and checks that it has kube-proxy's buckets.
func samples(t *testing.T, m *Metrics, name string) (n uint64) {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, child := range f.GetMetric() {
			n += child.GetHistogram().GetSampleCount()
			if b := child.GetHistogram().GetBucket(); len(b) != 15 || b[0].GetUpperBound() != 0.001 ||
				b[14].GetUpperBound() != 16.384 {
				t.Errorf("%s has other buckets than kube-proxy's", name)
			}
		}
	}
	return n
}

// gaugeTotals are kube-proxy's names of gauges: promlint would have others, dashboards know them as they are.
var gaugeTotals = []string{syncPrefix + "iptables_total", syncPrefix + "no_local_endpoints_total"}

func TestMetricsLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(exercised(t).registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if !slices.Contains(gaugeTotals, p.Metric) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestMetricsForget(t *testing.T) {
	m := exercised(t)
	before := series(t, m)
	other := cart
	other.Name = "other"
	r := sample()
	r.Service = other
	outlived := m.Observer(other, nil)
	if got := series(t, m); got != before {
		t.Errorf("%d series with a service port nobody has used, had %d", got, before)
	}
	outlived.Observe(r)
	r.Outcome = record.OutcomeCut
	observe(m, r)
	if got := series(t, m); got != before+6 {
		t.Errorf("%d series with two endings of another service port, want %d", got, before+6)
	}
	m.Forget(other)
	m.Forget(other)
	if got := series(t, m); got != before {
		t.Errorf("%d series after Forget, had %d", got, before)
	}
	outlived.Observe(r)
	if got := series(t, m); got != before {
		t.Errorf("%d series after the end of a connection that outlived its service port, had %d", got, before)
	}
}

// series counts those that bear the name of a service port.
func series(t *testing.T, m *Metrics) int {
	t.Helper()
	n, err := testutil.GatherAndCount(m.registry, "portald_connections_total", "portald_connection_bytes_total",
		"portald_dial_attempts_total")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestMetricsUnderConcurrency(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4")
	outcomes := record.Outcomes()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 2000 {
				r := sample()
				r.Service.Name = fmt.Sprint(i % 5)
				r.Outcome = outcomes[i%len(outcomes)]
				observe(m, r)
			}
		})
	}
	wg.Go(func() {
		for i := range 500 {
			m.Forget(service.PortName{Namespace: "shop", Name: fmt.Sprint(i % 5), Port: "http", Protocol: inet.TCP})
			series(t, m)
		}
	})
	wg.Wait()
	for i := range 5 {
		m.Forget(service.PortName{Namespace: "shop", Name: fmt.Sprint(i), Port: "http", Protocol: inet.TCP})
	}
	if n := series(t, m); n != 0 {
		t.Errorf("%d series left of service ports that are gone", n)
	}
}

func TestObserveDoesNotAllocate(t *testing.T) {
	m, r := NewMetrics(DefaultLimits(), "IPv4"), sample()
	o := m.Observer(r.Service, nil)
	o.Observe(r)
	if n := testing.AllocsPerRun(100, func() { o.Observe(r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMetricsObserve(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := NewMetrics(DefaultLimits(), "IPv4")
			r, observers := sample(), make([]record.Observer, n)
			for i := range observers {
				name := r.Service
				name.Name = fmt.Sprint(i)
				observers[i] = m.Observer(name, nil)
				observers[i].Observe(r)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				observers[i%n].Observe(r)
			}
		})
	}
}

func TestObserverTellsTheNext(t *testing.T) {
	var told []*record.Record
	next := record.ObserverFunc(func(r *record.Record) { told = append(told, r) })
	r := sample()
	NewMetrics(DefaultLimits(), "IPv4").Observer(r.Service, next).Observe(r)
	if len(told) != 1 || told[0] != r {
		t.Fatal(told)
	}
}

// Package metrics counts what the daemon does, for Prometheus: kube-proxy's metrics under their names, and portald's
// own as portald_*. The table in docs/metrics.md is made from the registry, by the package's tests with
// UPDATE_GOLDEN=1. The number of series of Services and endpoints is bounded: see Limits. The package does not know how
// traffic is carried, and never delays it.
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/fifo" // informer_*
	_ "k8s.io/component-base/metrics/prometheus/restclient"    // rest_client_*
	_ "k8s.io/component-base/metrics/prometheus/workqueue"     // workqueue_*

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/httpserver"
)

// Metrics are the daemon's metrics, in a registry of its own: kube-proxy's under their names, types, labels and buckets
// where they apply, and the metrics of connections. The metrics of client-go and of the process are in the registry
// that every program with client-go has. Safe for concurrent use.
type Metrics struct {
	registry    *prometheus.Registry
	families    []string
	began       time.Time
	sync        syncMetrics
	flows       flowMetrics
	policies    localPolicies
	conns       connMetrics
	kernel      kernelMetrics
	denied      packetMetrics // that rules refused
	overflows   packetMetrics // for which a receive buffer had no room
	waits       waitMetrics
	accepts     *prometheus.CounterVec
	refused     *prometheus.CounterVec
	quarantined prometheus.Gauge
	unserved    prometheus.Gauge
	changed     prometheus.Counter
	inherited   *prometheus.CounterVec
	healthz     *prometheus.CounterVec
	livez       *prometheus.CounterVec
}

// NewMetrics returns metrics for a proxy of these IP families ("IPv4", "IPv6": the values of the label ip_family). A
// sync covers all of them.
func NewMetrics(limits Limits, families ...string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		families: families,
		began:    time.Now(),
		accepts: counters("portald_accept_errors_total",
			"Connections that could not be accepted, by reason.", "reason"),
		refused: counters("portald_service_ports_refused_total",
			"Service ports that were set aside (quarantined), also again after a change, by reason.", "reason"),
		quarantined: prometheus.NewGauge(prometheus.GaugeOpts{Name: "portald_service_ports_set_aside",
			Help: "Service ports that the host refuses and that are set aside (quarantined)."}),
		unserved: prometheus.NewGauge(prometheus.GaugeOpts{Name: "portald_frontends_failed",
			Help: "Frontends whose address or port portald cannot get on this host."}),
		changed: prometheus.NewCounter(prometheus.CounterOpts{Name: "portald_rules_changed_total",
			Help: "How often portald's rules were found changed by others."}),
		inherited: inherited(),
		healthz:   counters("kubeproxy_proxy_healthz_total", "Answers to /healthz, by status code.", "code"),
		livez:     counters("kubeproxy_proxy_livez_total", "Answers to /livez, by status code.", "code"),
	}
	m.sync.init()
	m.flows.init()
	m.policies.init(families)
	m.conns.init(limits)
	m.kernel.init(limits)
	m.denied.init(limits, "portald_refused_packets_total", "Packets of clients that rules refused or dropped, since the "+
		"service port has no endpoint for them or is not served. A client that tries again counts again.")
	m.overflows.init(limits, "portald_udp_receive_buffer_errors_total", "Datagrams in userspace mode that the kernel "+
		"dropped because the receive buffer of portald's socket was full.")
	m.waits.init(m.registry)
	m.registry.MustRegister(m.accepts, m.refused, m.quarantined, m.unserved, m.changed, m.inherited, m.healthz, m.livez)
	m.registry.MustRegister(m.policies.gauges, &m.kernel)
	m.registry.MustRegister(buildInfo()...)
	m.registry.MustRegister(m.sync.all()...)
	m.registry.MustRegister(m.flows.all()...)
	m.registry.MustRegister(&m.conns, counterFunc("kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
		"Connections and UDP sessions at NodePorts of loopback addresses.", m.conns.localhost.Load))
	m.sync.zero(families)
	m.flows.zero(families)
	return m
}

// Began is when the metrics were made, as the daemon began.
func (m *Metrics) Began() time.Time { return m.began }

// Handler serves the metrics to Prometheus.
func (m *Metrics) Handler() http.Handler {
	all := prometheus.Gatherers{m.registry, legacyregistry.DefaultGatherer}
	return httpserver.NewLargePage(promhttp.HandlerFor(all,
		promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true}))
}

// AcceptError counts a connection that could not be accepted. The reason is from a closed set of words.
func (m *Metrics) AcceptError(reason string) { m.accepts.WithLabelValues(reason).Inc() }

// Refused counts a service port that was put into quarantine. The reason is from a closed set of words.
func (m *Metrics) Refused(reason string) { m.refused.WithLabelValues(reason).Inc() }

// SetQuarantined sets how many service ports are in quarantine.
func (m *Metrics) SetQuarantined(n int) { m.quarantined.Set(float64(n)) }

// FrontendsFailed sets how many frontends the host does not give.
func (m *Metrics) FrontendsFailed(n int) { m.unserved.Set(float64(n)) }

// RulesChanged counts that rules were found changed by others.
func (m *Metrics) RulesChanged() { m.changed.Inc() }

// WatchLog exports how many records the connection log dropped, and how many of its writes failed, which it reads at
// each scrape. It may be called once.
func (m *Metrics) WatchLog(dropped, failed func() uint64) {
	m.registry.MustRegister(
		counterFunc("portald_connection_records_dropped_total",
			"Connection records that never reached the connection log.", dropped),
		counterFunc("portald_connection_log_errors_total",
			"Failed attempts to write or open the connection log.", failed))
}

// WatchExport does the same of the export of records and changes by OTLP.
func (m *Metrics) WatchExport(dropped, changesDropped, failed func() uint64) {
	m.registry.MustRegister(
		counterFunc("portald_connection_export_dropped_total",
			"Connection records that the OpenTelemetry collector did not get.", dropped),
		counterFunc("portald_changes_export_dropped_total",
			"Changes on this node that the OpenTelemetry collector did not get.", changesDropped),
		counterFunc("portald_connection_export_errors_total",
			"Failed attempts to export a batch of connection records or changes.", failed))
}

// WatchSampling exports how many records sampling left out, which it reads at each scrape. It may be called once.
func (m *Metrics) WatchSampling(left func() uint64) {
	m.registry.MustRegister(counterFunc("portald_connection_records_sampled_out_total",
		"Connection records that sampling left out of the connection log.", left))
}

// WatchDrains exports how many endpoints are drained, which it reads at each scrape. It may be called once.
func (m *Metrics) WatchDrains(drains func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portald_drained_endpoints",
		Help: "Endpoints that were drained with portald drain: new connections of this node go to others.",
	}, func() float64 { return float64(drains()) }))
}

// WatchFiles exports of how many files of a kind something is refused, which it reads at each scrape. It may be called
// once for each kind.
func (m *Metrics) WatchFiles(kind string, refused func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portald_files_refused",
		Help: "Manifest or configuration files that are partly or wholly invalid; their previous content stays " +
			"in force.",
		ConstLabels: prometheus.Labels{"files": kind},
	}, func() float64 { return float64(refused()) }))
}

// WatchHistory exports how many changes of each kind there were. It may be called once.
func (m *Metrics) WatchHistory(history *changes.Log) {
	for _, k := range changes.Kinds() {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "portald_changes_total",
			Help:        "Changes on this node, as portald changes lists them.",
			ConstLabels: prometheus.Labels{"kind": string(k)},
		}, func() float64 { return float64(history.Count(k)) }))
	}
}

// WatchActive exports how many connections and UDP sessions are open. At each scrape, active yields the number of every
// service port that has any. It may be called once.
func (m *Metrics) WatchActive(active func(yield func(service.PortName, int))) {
	desc := prometheus.NewDesc("portald_connections_active",
		"Open connections and UDP sessions.", []string{"service", "protocol"}, nil)
	m.registry.MustRegister(activeCollector{&m.conns, active, desc})
}

// activeCollector counts the open connections at each scrape.
type activeCollector struct {
	conns  *connMetrics
	active func(yield func(service.PortName, int))
	desc   *prometheus.Desc
}

func (c activeCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

func (c activeCollector) Collect(to chan<- prometheus.Metric) {
	type series struct{ service, protocol string }
	open := map[series]int{}
	c.active(func(name service.PortName, n int) {
		open[series{c.conns.shownAs(name), name.Protocol.String()}] += n
	})
	for s, n := range open {
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n), s.service, s.protocol)
	}
}

// AnsweredHealthz counts an answer to /healthz, by its status code.
func (m *Metrics) AnsweredHealthz(code int) { m.healthz.WithLabelValues(strconv.Itoa(code)).Inc() }

// AnsweredLivez counts an answer to /livez.
func (m *Metrics) AnsweredLivez(code int) { m.livez.WithLabelValues(strconv.Itoa(code)).Inc() }

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func counterFunc(name, help string, value func() uint64) prometheus.CounterFunc {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
		func() float64 { return float64(value()) })
}

func unix(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const syncPrefix = "kubeproxy_sync_proxy_rules_"

// syncMetrics are kube-proxy's, of changes on their way to the host's rules.
type syncMetrics struct {
	duration, full, partial         *prometheus.HistogramVec
	programming                     *prometheus.HistogramVec
	last, queued, rules, rulesLast  *prometheus.GaugeVec
	restoreFailures, partialFailure *prometheus.CounterVec
	nftFailures, nftCleanupFailures *prometheus.CounterVec
}

func (s *syncMetrics) init() {
	// kube-proxy's buckets: pkg/proxy/metrics.
	buckets := prometheus.ExponentialBuckets(0.001, 2, 15)
	s.duration = histograms(syncPrefix+"duration_seconds",
		"Duration of one sync of the rules.", buckets, "ip_family")
	s.full = histograms("kubeproxy_sync_full_proxy_rules_duration_seconds",
		"Duration of one resync, which writes all rules.", buckets, "ip_family")
	s.partial = histograms("kubeproxy_sync_partial_proxy_rules_duration_seconds",
		"Duration of one sync that writes what changed.", buckets, "ip_family")
	s.programming = histograms("kubeproxy_network_programming_duration_seconds",
		"Time from a change of endpoints in the cluster until it was synced here.", programmingBuckets(), "ip_family")
	s.last = gauges(syncPrefix+"last_timestamp_seconds",
		"When the rules were last synced, Unix time.", "ip_family")
	s.queued = gauges(syncPrefix+"last_queued_timestamp_seconds",
		"When a sync of the rules was last queued, Unix time.", "ip_family")
	s.rules = gauges(syncPrefix+"iptables_total",
		"Rules held in iptables.", "ip_family", "table")
	s.rulesLast = gauges(syncPrefix+"iptables_last",
		"Rules written to iptables in the last sync.", "ip_family", "table")
	s.restoreFailures = counters(syncPrefix+"iptables_restore_failures_total",
		"Failed iptables-restore calls.", "ip_family")
	s.partialFailure = counters(syncPrefix+"iptables_partial_restore_failures_total",
		"Failed iptables-restore calls that were to write what changed.", "ip_family")
	s.nftFailures = counters(syncPrefix+"nftables_sync_failures_total", "Failed transactions of nftables.", "ip_family")
	s.nftCleanupFailures = counters(syncPrefix+"nftables_cleanup_failures_total",
		"Failed transactions of nftables that were to delete what is no longer used.", "ip_family")
}

func (s *syncMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{s.duration, s.full, s.partial, s.programming, s.last, s.queued, s.rules, s.rulesLast,
		s.restoreFailures, s.partialFailure, s.nftFailures, s.nftCleanupFailures}
}

// programmingBuckets are kube-proxy's, in seconds: every second of the first minute, every five of the second, and
// every thirty up to five minutes.
func programmingBuckets() []float64 {
	return slices.Concat(prometheus.LinearBuckets(0.25, 0.25, 2), prometheus.LinearBuckets(1, 1, 59),
		prometheus.LinearBuckets(60, 5, 12), prometheus.LinearBuckets(120, 30, 7))
}

// zero exports counters of failures before the first failure, so that the first one is an increase.
func (s *syncMetrics) zero(families []string) {
	for _, f := range families {
		s.restoreFailures.WithLabelValues(f)
		s.partialFailure.WithLabelValues(f)
		s.nftFailures.WithLabelValues(f)
		s.nftCleanupFailures.WithLabelValues(f)
	}
}

// Queued records that a sync was requested.
func (m *Metrics) Queued(at time.Time) {
	for _, f := range m.families {
		m.sync.queued.WithLabelValues(f).Set(unix(at))
	}
}

// Synced records a sync that succeeded: a resync if full, otherwise one of changes.
func (m *Metrics) Synced(full bool, start, end time.Time) {
	took := end.Sub(start).Seconds()
	kind := m.sync.partial
	if full {
		kind = m.sync.full
	}
	for _, f := range m.families {
		m.sync.duration.WithLabelValues(f).Observe(took)
		kind.WithLabelValues(f).Observe(took)
		m.sync.last.WithLabelValues(f).Set(unix(end))
	}
}

// Programmed records changes that were synced at end, by the times at which they were triggered in the cluster. Those
// older than this process are left out. A time in the future, by a clock ahead of ours, counts as 0 s.
func (m *Metrics) Programmed(triggered []time.Time, end time.Time) {
	for _, at := range triggered {
		if at.Before(m.began) {
			continue
		}
		for _, f := range m.families {
			m.sync.programming.WithLabelValues(f).Observe(max(0, end.Sub(at).Seconds()))
		}
	}
}

// RestoreFailed counts an iptables-restore that failed; partial if it was to write only what changed.
func (m *Metrics) RestoreFailed(family string, partial bool) {
	m.sync.restoreFailures.WithLabelValues(family).Inc()
	if partial {
		m.sync.partialFailure.WithLabelValues(family).Inc()
	}
}

// NFTablesFailed counts a sync that nftables refused in one address family.
func (m *Metrics) NFTablesFailed(family string) { m.sync.nftFailures.WithLabelValues(family).Inc() }

// NFTablesCleanupFailed counts a transaction that was to delete what is no longer used; NFTablesFailed counts it too.
func (m *Metrics) NFTablesCleanupFailed(family string) {
	m.sync.nftCleanupFailures.WithLabelValues(family).Inc()
}

// WatchInvalidDropped exports how many packets rules of iptables have dropped since conntrack found them invalid, which
// it reads at each scrape; false: that is not known. It may be called once.
func (m *Metrics) WatchInvalidDropped(dropped func() (packets uint64, known bool)) {
	m.registry.MustRegister(invalidCollector{dropped, prometheus.NewDesc(
		"kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
		"Packets that rules of iptables dropped, since conntrack found them invalid.", nil, nil)})
}

type invalidCollector struct {
	dropped func() (uint64, bool)
	desc    *prometheus.Desc
}

func (c invalidCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

func (c invalidCollector) Collect(to chan<- prometheus.Metric) {
	if n, known := c.dropped(); known {
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(n))
	}
}

// Rules sets how many rules of ours are in one table of iptables.
func (m *Metrics) Rules(family, table string, n int) {
	m.sync.rules.WithLabelValues(family, table).Set(float64(n))
}

// RulesLast sets how many rules the last sync wrote to one table of iptables.
func (m *Metrics) RulesLast(family, table string, n int) {
	m.sync.rulesLast.WithLabelValues(family, table).Set(float64(n))
}

// Changes are the numbers of changes that the source reported, in all and not yet synced.
type Changes struct {
	Services, Endpoints               uint64
	ServicesPending, EndpointsPending int
}

// WatchChanges exports what the source reported, which it reads at each scrape. It may be called once.
func (m *Metrics) WatchChanges(changes func() Changes) {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(syncPrefix+name, help, nil, nil) }
	m.registry.MustRegister(changesCollector{
		changes:          changes,
		services:         desc("service_changes_total", "Changes of Services seen."),
		servicesPending:  desc("service_changes_pending", "Changes of Services not yet synced."),
		endpoints:        desc("endpoint_changes_total", "Changes of endpoints seen."),
		endpointsPending: desc("endpoint_changes_pending", "Changes of endpoints not yet synced."),
	})
}

type changesCollector struct {
	changes                                                func() Changes
	services, servicesPending, endpoints, endpointsPending *prometheus.Desc
}

func (c changesCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.services
	to <- c.servicesPending
	to <- c.endpoints
	to <- c.endpointsPending
}

func (c changesCollector) Collect(to chan<- prometheus.Metric) {
	now := c.changes()
	to <- prometheus.MustNewConstMetric(c.services, prometheus.CounterValue, float64(now.Services))
	to <- prometheus.MustNewConstMetric(c.servicesPending, prometheus.GaugeValue, float64(now.ServicesPending))
	to <- prometheus.MustNewConstMetric(c.endpoints, prometheus.CounterValue, float64(now.Endpoints))
	to <- prometheus.MustNewConstMetric(c.endpointsPending, prometheus.GaugeValue, float64(now.EndpointsPending))
}

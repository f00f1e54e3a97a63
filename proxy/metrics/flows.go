package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portald/portald/platform/inet"
)

const reconcilerPrefix = "kubeproxy_conntrack_reconciler_"

// flowMetrics are kube-proxy's metrics of stale flows.
type flowMetrics struct {
	duration *prometheus.HistogramVec
	deleted  *prometheus.CounterVec
}

func (f *flowMetrics) init() {
	f.duration = histograms(reconcilerPrefix+"sync_duration_seconds",
		"Duration of one search for stale flows.", prometheus.ExponentialBuckets(0.001, 2, 15), "ip_family")
	f.deleted = counters(reconcilerPrefix+"deleted_entries_total", "Stale flows deleted.", "ip_family")
}

func (f *flowMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{f.duration, f.deleted}
}

func (f *flowMetrics) zero(families []string) {
	for _, family := range families {
		f.deleted.WithLabelValues(family)
	}
}

// DeleteFlows deletes the flows of a query that stale accepts, and returns how many there were.
type DeleteFlows = func(context.Context, inet.FlowQuery, func(inet.Flow) bool) (deleted int, err error)

// CountDeletedFlows returns deleteFlows with its calls measured. One call looks through the flows of both families, and
// its duration counts for each.
func (m *Metrics) CountDeletedFlows(deleteFlows DeleteFlows) DeleteFlows {
	return func(ctx context.Context, q inet.FlowQuery, stale func(inet.Flow) bool) (int, error) {
		start, matched := time.Now(), map[string]int{}
		deleted, err := deleteFlows(ctx, q, func(f inet.Flow) bool {
			ok := stale(f)
			if ok {
				matched[inet.FamilyOf(f.To.Addr()).String()]++
			}
			return ok
		})
		took := time.Since(start).Seconds()
		for _, family := range m.families {
			m.flows.duration.WithLabelValues(family).Observe(took)
			m.flows.deleted.WithLabelValues(family).Add(float64(matched[family]))
		}
		return deleted, err
	}
}

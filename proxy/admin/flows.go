package admin

import (
	"context"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portald/portald/proxy/service"
)

const reconcilerPrefix = "kubeproxy_conntrack_reconciler_"

// flowMetrics are kube-proxy's metrics of stale UDP flows.
type flowMetrics struct {
	duration *prometheus.HistogramVec
	deleted  *prometheus.CounterVec
}

func (f *flowMetrics) init() {
	f.duration = histograms(reconcilerPrefix+"sync_duration_seconds",
		"Duration of one search for stale UDP flows.", prometheus.ExponentialBuckets(0.001, 2, 15), "ip_family")
	f.deleted = counters(reconcilerPrefix+"deleted_entries_total", "Stale UDP flows deleted.", "ip_family")
}

func (f *flowMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{f.duration, f.deleted}
}

func (f *flowMetrics) zero(families []string) {
	for _, family := range families {
		f.deleted.WithLabelValues(family)
	}
}

// DeleteUDP deletes the UDP flows that stale accepts, by the address that the client wrote to and the one that replies,
// and returns how many there were.
type DeleteUDP = func(ctx context.Context, stale func(dst, replier netip.AddrPort) bool) (deleted int, err error)

// CountDeletedFlows returns deleteUDP with its calls measured. One call looks through the flows of both families, and
// its duration counts for each.
func (m *Metrics) CountDeletedFlows(deleteUDP DeleteUDP) DeleteUDP {
	return func(ctx context.Context, stale func(dst, replier netip.AddrPort) bool) (int, error) {
		start, matched := time.Now(), map[string]int{}
		deleted, err := deleteUDP(ctx, func(dst, replier netip.AddrPort) bool {
			ok := stale(dst, replier)
			if ok {
				matched[service.FamilyOf(dst.Addr()).String()]++
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

package admin

import (
	"context"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portald/portald/proxy/service"
)

const reconcilerPrefix = "kubeproxy_conntrack_reconciler_"

// forgetMetrics are kube-proxy's, of UDP flows that the kernel is made to forget.
type forgetMetrics struct {
	duration *prometheus.HistogramVec
	deleted  *prometheus.CounterVec
}

func (f *forgetMetrics) init() {
	f.duration = histograms(reconcilerPrefix+"sync_duration_seconds",
		"Duration of one search for stale UDP flows.", prometheus.ExponentialBuckets(0.001, 2, 15), "ip_family")
	f.deleted = counters(reconcilerPrefix+"deleted_entries_total", "Stale UDP flows deleted.", "ip_family")
}

func (f *forgetMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{f.duration, f.deleted}
}

func (f *forgetMetrics) zero(families []string) {
	for _, family := range families {
		f.deleted.WithLabelValues(family)
	}
}

// ForgetUDP has the kernel forget the UDP flows that stale accepts, by the address that the client wrote to and the one
// that answers, and returns how many there were.
type ForgetUDP = func(ctx context.Context, stale func(dst, answers netip.AddrPort) bool) (deleted int, err error)

// CountForgotten returns forget with what it does counted. One search is through the flows of both families, and its
// duration is noted for each.
func (m *Metrics) CountForgotten(forget ForgetUDP) ForgetUDP {
	return func(ctx context.Context, stale func(dst, answers netip.AddrPort) bool) (int, error) {
		start, matched := time.Now(), map[string]int{}
		deleted, err := forget(ctx, func(dst, answers netip.AddrPort) bool {
			ok := stale(dst, answers)
			if ok {
				matched[service.FamilyOf(dst.Addr()).String()]++
			}
			return ok
		})
		took := time.Since(start).Seconds()
		for _, family := range m.families {
			m.forget.duration.WithLabelValues(family).Observe(took)
			m.forget.deleted.WithLabelValues(family).Add(float64(matched[family]))
		}
		return deleted, err
	}
}

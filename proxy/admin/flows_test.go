package admin

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/portald/portald/proxy/service"
)

func TestCountDeletedFlows(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4", "IPv6")
	flows := []string{"10.96.0.10:53", "10.96.0.11:53", "[fd00::10]:53", "10.96.0.10:53"}
	broken := errors.New("no more")
	deleteFlows := m.CountDeletedFlows(func(_ context.Context, q service.FlowQuery, stale func(service.Flow) bool) (n int,
		err error) {
		for _, f := range flows {
			if q.Unanswered && stale(service.Flow{To: service.Frontend{Addr: netip.MustParseAddrPort(f)}}) {
				n++
			}
		}
		return n, broken
	})
	n, err := deleteFlows(t.Context(), service.FlowQuery{Unanswered: true},
		func(f service.Flow) bool { return f.To.Addr.Addr() != netip.MustParseAddr("10.96.0.11") })
	if n != 3 || !errors.Is(err, broken) {
		t.Errorf("%d, %v", n, err)
	}
	wantMetrics(t, m, `
# HELP kubeproxy_conntrack_reconciler_deleted_entries_total Stale flows deleted.
# TYPE kubeproxy_conntrack_reconciler_deleted_entries_total counter
kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 2
kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv6"} 1
`, "kubeproxy_conntrack_reconciler_deleted_entries_total")
	if n := samples(t, m, "kubeproxy_conntrack_reconciler_sync_duration_seconds"); n != 2 {
		t.Errorf("%d durations, want one for each family", n)
	}
}

package metrics

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/portald/portald/platform/inet"
)

func TestCountDeletedFlows(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4", "IPv6")
	flows := []string{"10.96.0.10:53", "10.96.0.11:53", "[fd00::10]:53", "10.96.0.10:53"}
	broken := errors.New("no more")
	deleteFlows := m.CountDeletedFlows(func(_ context.Context, q inet.FlowQuery, stale func(inet.Flow) bool) (n int,
		err error) {
		for _, f := range flows {
			if q.Unreplied && stale(inet.Flow{To: netip.MustParseAddrPort(f)}) {
				n++
			}
		}
		return n, broken
	})
	n, err := deleteFlows(t.Context(), inet.FlowQuery{Unreplied: true},
		func(f inet.Flow) bool { return f.To.Addr() != netip.MustParseAddr("10.96.0.11") })
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

package admin

import (
	"context"
	"errors"
	"net/netip"
	"testing"
)

func TestCountDeletedFlows(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4", "IPv6")
	flows := []string{"10.96.0.10:53", "10.96.0.11:53", "[fd00::10]:53", "10.96.0.10:53"}
	broken := errors.New("no more")
	deleteUDP := m.CountDeletedFlows(func(_ context.Context, stale func(dst, answers netip.AddrPort) bool) (n int,
		err error) {
		for _, f := range flows {
			if stale(netip.MustParseAddrPort(f), netip.AddrPort{}) {
				n++
			}
		}
		return n, broken
	})
	n, err := deleteUDP(t.Context(),
		func(dst, _ netip.AddrPort) bool { return dst.Addr() != netip.MustParseAddr("10.96.0.11") })
	if n != 3 || !errors.Is(err, broken) {
		t.Errorf("%d, %v", n, err)
	}
	wantMetrics(t, m, `
# HELP kubeproxy_conntrack_reconciler_deleted_entries_total Stale UDP flows deleted.
# TYPE kubeproxy_conntrack_reconciler_deleted_entries_total counter
kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 2
kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv6"} 1
`, "kubeproxy_conntrack_reconciler_deleted_entries_total")
	if n := samples(t, m, "kubeproxy_conntrack_reconciler_sync_duration_seconds"); n != 2 {
		t.Errorf("%d durations, want one for each family", n)
	}
}

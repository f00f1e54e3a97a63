package api

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
)

// TestAPIScale creates many Services, changes them at a high rate, and then runs a rolling update among them.
func TestAPIScale(t *testing.T) {
	began := time.Now()
	m := newMany(apibed.New(t, 1, 9))
	t.Logf("%d Services with %d endpoints each were written %v after the start", manyServices, manyEndpoints, since(began))
	began = time.Now()
	d := m.bed.ServeOn(m.site)
	t.Logf("portald was ready after %v; %s", since(began), memory(d))
	m.roll()
	m.servedAtLast()
	m.rulesAtLast()
	programmed(d, manyChanges)
	syncs(d)
	t.Logf("after the changes %s", memory(d))
	t.Run("rolling update", func(t *testing.T) { rollout(m.bed.As(t)) })
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

// servedAtLast waits until every Service is served in its last version, and checks all endpoints of some.
func (m *many) servedAtLast() {
	m.bed.Helper()
	began := time.Now()
	left := slices.DeleteFunc(slices.Clone(m.all), func(s *scaled) bool { return s.deleted })
	total := len(left)
	for len(left) > 0 && time.Since(began) < apibed.ChangeTimeout {
		left = m.stale(left)
	}
	for _, s := range left[:min(10, len(left))] {
		a, err := bed.Ask(m.site.Client, "tcp", bed.HostPort(s.ip, s.port))
		m.bed.Errorf("%s is served by %s, %v, want an endpoint since change %d", s.name(), a.Pod, err, s.generation)
	}
	m.bed.Logf("%d of %d Services are served in their last version after %v", total-len(left), total, since(began))
	for _, s := range []*scaled{m.all[0], m.all[changing-1], m.all[deletedTo], m.all[manyServices-1]} {
		m.servedByAll(s)
	}
}

// stale returns the Services that are not served, or served in an older version.
func (m *many) stale(all []*scaled) (left []*scaled) {
	is := make([]bool, len(all))
	each(m.bed, len(all), func(i int) error {
		s := all[i]
		a, err := bed.Ask(m.site.Client, "tcp", bed.HostPort(s.ip, s.port))
		is[i] = err != nil || !s.has(a.Pod)
		return nil
	})
	for i, s := range all {
		if is[i] {
			left = append(left, s)
		}
	}
	return left
}

// servedByAll checks that all endpoints of a Service answer and no others.
func (m *many) servedByAll(s *scaled) {
	m.bed.Helper()
	count := m.site.Tally(2*manyEndpoints, 1, m.site.Client, "tcp", bed.HostPort(s.ip, s.port))
	for _, a := range s.endpoints() {
		if count[a.String()] != 2 {
			m.bed.Errorf("%s: %s answered %d times of %d, want twice: %v", s.name(), a, count[a.String()], 2*manyEndpoints,
				count)
		}
	}
}

var manyRule = regexp.MustCompile(`-d ([0-9.]+)/32 .*"many/(s\d+):http ClusterIP" .*--dport (\d+) .*-j REDIRECT`)

// rulesAtLast compares the portals on the host with the existing Services.
func (m *many) rulesAtLast() {
	m.bed.Helper()
	want := map[string]string{}
	for _, s := range m.all {
		if !s.deleted {
			want[s.name()] = bed.HostPort(s.ip, s.port)
		}
	}
	got := 0
	for line := range strings.Lines(m.site.On(m.site.Node, "iptables-save", "-t", "nat")) {
		rule := manyRule.FindStringSubmatch(line)
		if rule == nil {
			continue
		}
		number, _ := strconv.Atoi(rule[3])
		if to := bed.HostPort(rule[1], number); want[rule[2]] != to {
			m.bed.Errorf("%s has a portal at %s, want %q", rule[2], to, want[rule[2]])
		}
		got++
	}
	if got != len(want) {
		m.bed.Errorf("%d portals on the host, want %d", got, len(want))
	}
}

// programmed checks that the network programming latency was measured for each change of endpoints. How long they take
// is for make bench-scale to say, on a machine that does nothing else.
func programmed(d *bed.Daemon, changes int) {
	d.Helper()
	h := readHistogram(d, "kubeproxy_network_programming_duration_seconds")
	if h.count != changes {
		d.Errorf("%d changes of endpoints were measured, want %d", h.count, changes)
	}
	d.Logf("network programming: mean %v, p50 ≤ %g s, p99 ≤ %g s", h.mean(), h.quantile(0.5), h.quantile(0.99))
	for _, what := range []string{"service", "endpoint"} {
		if n := d.Metric("kubeproxy_sync_proxy_rules_" + what + "_changes_pending"); n != 0 {
			d.Errorf("%g %s changes are still pending", n, what)
		}
	}
}

// syncs checks that changes were applied by partial syncs, and that no sync failed.
func syncs(d *bed.Daemon) {
	d.Helper()
	part := readHistogram(d, "kubeproxy_sync_partial_proxy_rules_duration_seconds")
	full := readHistogram(d, "kubeproxy_sync_full_proxy_rules_duration_seconds")
	d.Logf("%d partial syncs, mean %v, p99 ≤ %g s; %d full syncs, mean %v",
		part.count, part.mean(), part.quantile(0.99), full.count, full.mean())
	if part.count == 0 {
		d.Error("no sync was partial")
	}
	if full.count > 2 { // an update of the Node can cause a second one
		d.Errorf("%d full syncs, want at most 2", full.count)
	}
	for _, family := range []string{"IPv4", "IPv6"} {
		if n := d.Metric(`kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="` + family + `"}`); n != 0 {
			d.Errorf("%g writes of %s rules failed", n, family)
		}
	}
}

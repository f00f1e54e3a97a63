package api

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/cluster"
)

// kubeProxyMetrics lists the metrics of kube-proxy that portald has too, and those of client-go: names with types and
// labels, without "le" of histograms.
const kubeProxyMetrics = `
kubeproxy_sync_proxy_rules_duration_seconds histogram ip_family
kubeproxy_sync_full_proxy_rules_duration_seconds histogram ip_family
kubeproxy_sync_partial_proxy_rules_duration_seconds histogram ip_family
kubeproxy_sync_proxy_rules_last_timestamp_seconds gauge ip_family
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds gauge ip_family
kubeproxy_sync_proxy_rules_endpoint_changes_pending gauge
kubeproxy_sync_proxy_rules_endpoint_changes_total counter
kubeproxy_sync_proxy_rules_service_changes_pending gauge
kubeproxy_sync_proxy_rules_service_changes_total counter
kubeproxy_sync_proxy_rules_iptables_total gauge ip_family table
kubeproxy_sync_proxy_rules_iptables_last gauge ip_family table
kubeproxy_sync_proxy_rules_iptables_restore_failures_total counter ip_family
kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total counter ip_family
kubeproxy_sync_proxy_rules_no_local_endpoints_total gauge ip_family traffic_policy
kubeproxy_network_programming_duration_seconds histogram ip_family
kubeproxy_proxy_healthz_total counter code
kubeproxy_proxy_livez_total counter code
kubeproxy_conntrack_reconciler_sync_duration_seconds histogram ip_family
kubeproxy_conntrack_reconciler_deleted_entries_total counter ip_family
kubernetes_build_info gauge build_date compiler git_commit git_tree_state git_version go_version major minor platform
rest_client_requests_total counter code host method
rest_client_request_duration_seconds histogram host verb
rest_client_request_size_bytes histogram host verb
rest_client_response_size_bytes histogram host verb
rest_client_rate_limiter_duration_seconds histogram host verb
go_goroutines gauge
process_open_fds gauge
process_resident_memory_bytes gauge
process_start_time_seconds gauge
`

func metrics(b *apibed.Bed, n *cluster.Namespace) {
	s := b.Sites[1]
	local := corev1.ServiceInternalTrafficPolicyLocal
	cart := n.Service("cart", corev1.ServiceSpec{InternalTrafficPolicy: &local, Ports: apibed.Web()})
	b.AddPods(n, "cart", "a0")
	b.AnswersBoth(b.Sites[0].Client, apibed.On80(cart.Spec.ClusterIP), "a0")
	for _, path := range []string{"/healthz", "/livez"} {
		_, _, _ = s.Get("127.0.0.1:10256", path) // so that the metric of health requests exists
	}
	for line := range strings.Lines(strings.TrimSpace(kubeProxyMetrics)) {
		words := strings.Fields(line)
		b.Eventually("the metric "+strings.TrimSpace(line), func() bool {
			return hasMetric(s, words[0], words[1], words[2:])
		})
	}
	b.Eventually("the counters", func() bool {
		const left = "kubeproxy_sync_proxy_rules_no_local_endpoints_total"
		return s.D.Metric(left+`{ip_family="IPv4",traffic_policy="internal"}`) >= 2 &&
			s.D.Metric(`kubeproxy_network_programming_duration_seconds_count{ip_family="IPv4"}`) > 0
	})
	_, _, _ = s.Get("127.0.0.1:10249", "/healthz")
	if _, body, err := s.Get("127.0.0.1:10249", "/metrics/slis"); err != nil ||
		!strings.Contains(body, "kubernetes_healthcheck") {
		b.Errorf("/metrics/slis returns %q, %v", body, err)
	}
}

// hasMetric tells whether there is a series with that name, type and labels.
func hasMetric(s *apibed.Site, name, kind string, labels []string) bool {
	s.Helper()
	_, all, err := s.Get("127.0.0.1:10249", "/metrics")
	if err != nil {
		s.Fatal(err)
	}
	suffix := ""
	if kind == "histogram" {
		suffix = "_count"
	}
	if !strings.Contains(all, "\n# TYPE "+name+" "+kind+"\n") {
		return false
	}
	series := regexp.MustCompile(`(?m)^` + name + suffix + `(?:\{(.*)\})? [^ ]+$`).FindStringSubmatch(all)
	if series == nil {
		return false
	}
	var got []string
	for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(series[1], -1) {
		got = append(got, label[1])
	}
	return slices.Equal(got, labels)
}

// pages checks the other pages of the metrics server: the configuration, and no profiles by default.
func pages(b *apibed.Bed, _ *cluster.Namespace) {
	s := b.Sites[0]
	_, body, err := s.Get("127.0.0.1:10249", "/configz")
	var configs map[string]map[string]any
	if err != nil || json.Unmarshal([]byte(body), &configs) != nil {
		b.Fatalf("/configz returns %q, %v", body, err)
	}
	if got := configs["kubeproxy.config.k8s.io"]["clusterCIDR"]; got != "10.244.0.0/16,fd00:10:244::/56" {
		b.Errorf("clusterCIDR is %v in /configz: %s", got, body)
	}
	for path, has := range map[string]string{
		"/flagz": "\ncluster-cidr=10.244.0.0/16,fd00:10:244::/56\n", "/statusz": "Emulation version: 1.",
		"/metrics": `kubernetes_feature_enabled{name="AllowServiceExternalIPs",stage=""} 1`,
	} {
		if code, body, err := s.Get("127.0.0.1:10249", path); code != http.StatusOK || !strings.Contains(body, has) {
			b.Errorf("%s has no %q: %d, %v\n%s", path, has, code, err, body)
		}
	}
	if code, _, err := s.Get("127.0.0.1:10249", "/debug/pprof/cmdline"); code != http.StatusNotFound {
		b.Errorf("profiles are served without --profiling: %d, %v", code, err)
	}
}

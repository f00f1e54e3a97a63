package metrics

import (
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/splice"
)

// busy is a data path with something of everything.
func busy() DataPath {
	s := splice.Stats{
		Descriptors: 80, Sessions: 5, PipePages: 256, Buffers: 2, ReplayBytes: 512, PayloadBytes: 300, Kept: 30,
		UDPDropped: 4, PortsCrowded: 6, Waiting: 3,
		Limits: splice.Limits{Descriptors: 100, Sessions: 10, PipePages: 4096, ReplayBytes: 8 << 20, PayloadBytes: 16 << 20,
			Kept: 40, SourcePorts: 1000},
	}
	s.LoopLatency.Counts[0], s.LoopLatency.Counts[5], s.LoopLatency.Counts[16], s.LoopLatency.Sum = 7, 2, 1, 2*time.Second
	return DataPath{
		Stats: func() splice.Stats { return s }, BusiestEndpoint: func() int { return 900 },
		Ejected: func() int { return 4 }, BudgetExhausted: func() uint64 { return 9 }, ProxyPorts: 19000,
		PortSharers: func() int { return 5 },
		LoopbackListeners: func(f inet.Family) (int64, uint64) {
			return map[inet.Family]int64{inet.IPv4: 8, inet.IPv6: 7}[f], uint64(f)
		},
		ProxyPortsInUse: func(p inet.Protocol) int { return int(p) },
	}
}

func TestMetricsOfTheDataPath(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4")
	m.WatchDataPath(busy())
	wantMetrics(t, m, `
# HELP portald_crowded_dials_total Dials that found most of portald's local ports towards an endpoint in use, so that the kernel had to search for one.
# TYPE portald_crowded_dials_total counter
portald_crowded_dials_total 6
# HELP portald_udp_datagrams_dropped_total Datagrams that the kernel did not accept because there was no room or no route.
# TYPE portald_udp_datagrams_dropped_total counter
portald_udp_datagrams_dropped_total 4
# HELP kubeproxy_nftables_localhost_nodeport_listeners Listeners for NodePorts at loopback addresses, of TCP and UDP.
# TYPE kubeproxy_nftables_localhost_nodeport_listeners gauge
kubeproxy_nftables_localhost_nodeport_listeners{ip_family="IPv4"} 8
kubeproxy_nftables_localhost_nodeport_listeners{ip_family="IPv6"} 7
# HELP kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total Listeners for NodePorts at loopback addresses that could not be opened, again at each attempt.
# TYPE kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total counter
kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total{ip_family="IPv4"} 0
kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total{ip_family="IPv6"} 1
# HELP portald_waiting_connections Connections and UDP sessions that wait for an endpoint.
# TYPE portald_waiting_connections gauge
portald_waiting_connections 3
# HELP portald_resource_used How much of a resource is in use.
# TYPE portald_resource_used gauge
portald_resource_used{resource="buffers"} 2
portald_resource_used{resource="descriptors"} 80
portald_resource_used{resource="kept_connections"} 30
portald_resource_used{resource="payload_bytes"} 300
portald_resource_used{resource="pipe_pages"} 256
portald_resource_used{resource="proxy_port_sharers"} 5
portald_resource_used{resource="proxy_ports_tcp"} 6
portald_resource_used{resource="proxy_ports_udp"} 17
portald_resource_used{resource="replay_bytes"} 512
portald_resource_used{resource="source_ports"} 900
portald_resource_used{resource="udp_sessions"} 5
# HELP portald_resource_limit How much of a resource may be in use; a resource without a limit is left out.
# TYPE portald_resource_limit gauge
portald_resource_limit{resource="descriptors"} 100
portald_resource_limit{resource="kept_connections"} 40
portald_resource_limit{resource="payload_bytes"} 1.6777216e+07
portald_resource_limit{resource="pipe_pages"} 4096
portald_resource_limit{resource="proxy_ports_tcp"} 19000
portald_resource_limit{resource="proxy_ports_udp"} 19000
portald_resource_limit{resource="replay_bytes"} 8.388608e+06
portald_resource_limit{resource="source_ports"} 1000
portald_resource_limit{resource="udp_sessions"} 10
`, "portald_crowded_dials_total", "portald_udp_datagrams_dropped_total", "portald_resource_used",
		"portald_waiting_connections", "kubeproxy_nftables_localhost_nodeport_listeners",
		"kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total",
		"portald_resource_limit")
	text := scrape(t, m)
	for line, want := range map[string]string{
		`portald_loop_round_seconds_bucket{le="3.125e-05"}`: "7",
		`portald_loop_round_seconds_bucket{le="0.001"}`:     "9",
		`portald_loop_round_seconds_bucket{le="+Inf"}`:      "10",
		"portald_loop_round_seconds_sum":                    "2.0",
	} {
		if got := lineOf(text, line); got != line+" "+want+"\n" {
			t.Errorf("%q, want %s", got, want)
		}
	}
}

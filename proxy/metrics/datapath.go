package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/splice"
)

// DataPath has the numbers of the data path that metrics read at each scrape.
type DataPath struct {
	Stats           func() splice.Stats
	BusiestEndpoint func() int // TCP connections of the endpoint with the most
	Ejected         func() int // endpoints
	BudgetExhausted func() uint64
	ProxyPorts      int // how many there are for each protocol
	ProxyPortsInUse func(inet.Protocol) int
	PortSharers     func() int // TCP service ports without a proxy port of their own
	// LoopbackListeners returns how many listeners NodePorts have at loopback addresses, and how many could not be opened.
	LoopbackListeners func(inet.Family) (open int64, failed uint64)
}

// WatchDataPath exports how much the data path has of what it may take, and how long its event loops take for a round.
// It may be called once.
func (m *Metrics) WatchDataPath(d DataPath) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m.registry.MustRegister(dataPathCollector{
		from: d,
		dropped: desc("portald_udp_datagrams_dropped_total",
			"Datagrams that the kernel did not accept because there was no room or no route."),
		crowded: desc("portald_crowded_dials_total", "Dials that found most of portald's local ports towards an "+
			"endpoint in use, so that the kernel had to search for one."),
		ejected: desc("portald_endpoints_ejected",
			"Endpoints that are ejected because they failed several connections in a row: they get no new "+
				"connections for a while."),
		exhausted: desc("portald_retry_budget_exhausted_total",
			"Retries that were not made, or not at once, because the retry budget of the service port was used up."),
		waiting: desc("portald_waiting_connections", "Connections and UDP sessions that wait for an endpoint."),
		used:    desc("portald_resource_used", "How much of a resource is in use.", "resource"),
		limit: desc("portald_resource_limit",
			"How much of a resource may be in use; a resource without a limit is left out.", "resource"),
		loopLatency: desc("portald_loop_round_seconds", "Time of a round of an event loop, from the arrival of "+
			"events until all are handled: how long connections of one loop wait for each other."),
		loopbacks: desc("kubeproxy_nftables_localhost_nodeport_listeners",
			"Listeners for NodePorts at loopback addresses, of TCP and UDP.", "ip_family"),
		loopbacksFailed: desc("kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total",
			"Listeners for NodePorts at loopback addresses that could not be opened, again at each attempt.", "ip_family"),
	})
}

type dataPathCollector struct {
	from                                                                    DataPath
	dropped, crowded, ejected, exhausted, waiting, used, limit, loopLatency *prometheus.Desc
	loopbacks, loopbacksFailed                                              *prometheus.Desc
}

func (c dataPathCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.dropped, c.crowded, c.ejected, c.exhausted, c.waiting, c.used, c.limit,
		c.loopLatency, c.loopbacks, c.loopbacksFailed} {
		to <- d
	}
}

func (c dataPathCollector) Collect(to chan<- prometheus.Metric) {
	s := c.from.Stats()
	to <- prometheus.MustNewConstMetric(c.dropped, prometheus.CounterValue, float64(s.UDPDropped))
	to <- prometheus.MustNewConstMetric(c.crowded, prometheus.CounterValue, float64(s.PortsCrowded))
	to <- prometheus.MustNewConstMetric(c.ejected, prometheus.GaugeValue, float64(c.from.Ejected()))
	to <- prometheus.MustNewConstMetric(c.exhausted, prometheus.CounterValue, float64(c.from.BudgetExhausted()))
	to <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(s.Waiting))
	for _, r := range c.resources(&s) {
		to <- prometheus.MustNewConstMetric(c.used, prometheus.GaugeValue, float64(r.used), r.name)
		if r.limit > 0 {
			to <- prometheus.MustNewConstMetric(c.limit, prometheus.GaugeValue, float64(r.limit), r.name)
		}
	}
	to <- loopLatencyMetric(c.loopLatency, s.LoopLatency)
	for _, family := range inet.Families() {
		open, failed := c.from.LoopbackListeners(family)
		to <- prometheus.MustNewConstMetric(c.loopbacks, prometheus.GaugeValue, float64(open), family.String())
		to <- prometheus.MustNewConstMetric(c.loopbacksFailed, prometheus.CounterValue, float64(failed), family.String())
	}
}

// resource is something that connections take, and that there is a limit of, or none (0).
type resource struct {
	name        string
	used, limit int64
}

func (c dataPathCollector) resources(s *splice.Stats) []resource {
	ports := int64(c.from.ProxyPorts)
	all := []resource{
		{"descriptors", s.Descriptors, s.Limits.Descriptors},
		{"udp_sessions", s.Sessions, s.Limits.Sessions},
		{"pipe_pages", s.PipePages, s.Limits.PipePages},
		{"buffers", s.Buffers, s.Limits.Buffers},
		{"replay_bytes", s.ReplayBytes, s.Limits.ReplayBytes},
		{"payload_bytes", s.PayloadBytes, s.Limits.PayloadBytes},
		{"source_ports", int64(c.from.BusiestEndpoint()), s.Limits.SourcePorts},
		{"proxy_ports_tcp", int64(c.from.ProxyPortsInUse(inet.TCP)), ports},
		{"proxy_ports_udp", int64(c.from.ProxyPortsInUse(inet.UDP)), ports},
		{"proxy_port_sharers", int64(c.from.PortSharers()), 0},
	}
	if s.Limits.Kept > 0 {
		all = append(all, resource{"kept_connections", s.Kept, s.Limits.Kept})
	}
	return all
}

func loopLatencyMetric(desc *prometheus.Desc, r splice.LoopLatency) prometheus.Metric {
	below, n := map[float64]uint64{}, uint64(0)
	for i, bound := range splice.LoopLatencyBounds() {
		n += r.Counts[i]
		below[bound.Seconds()] = n
	}
	n += r.Counts[len(r.Counts)-1]
	return prometheus.MustNewConstHistogram(desc, n, r.Sum.Seconds(), below)
}

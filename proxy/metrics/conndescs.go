package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/portald/portald/proxy/record"
)

// connDescs are the metrics of connections.
type connDescs struct {
	connections, bytes, dials, hedges, replays *prometheus.Desc
	byProtocol, byService                      timingDescs
	endpoints                                  endpointDescs
}

type timingDescs struct{ connect, firstByte, duration *prometheus.Desc }

func newConnDescs() connDescs {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"service", "protocol"}, more...), nil)
	}
	return connDescs{
		connections: desc("portald_connections_total",
			"Finished connections and UDP sessions.", "portal", "outcome"),
		bytes: desc("portald_connection_bytes_total",
			"Bytes carried by finished connections and UDP sessions.", "direction"),
		dials: desc("portald_dial_attempts_total",
			"Attempts to reach an endpoint, by finished connections and UDP sessions.", "result"),
		hedges: desc("portald_hedged_dials_total", "Dials that began while another was in progress, by whether "+
			"they served.",
			"result"),
		replays: desc("portald_replays_total",
			"Requests that were sent again to another endpoint because the first did not respond (retry-on)."),
		byProtocol: newTimingDescs("portald_connect_seconds", "portald_first_byte_seconds",
			"portald_connection_duration_seconds", "protocol"),
		byService: newTimingDescs("portald_service_connect_seconds", "portald_service_first_byte_seconds",
			"portald_service_duration_seconds", "service", "protocol"),
		endpoints: newEndpointDescs(),
	}
}

func newTimingDescs(connect, firstByte, duration string, labels ...string) timingDescs {
	return timingDescs{
		connect: prometheus.NewDesc(connect,
			"Time from the accept until an endpoint was connected, retries included.", labels, nil),
		firstByte: prometheus.NewDesc(firstByte,
			"Time from the connect until the endpoint's first byte.", labels, nil),
		duration: prometheus.NewDesc(duration,
			"Duration of finished connections and UDP sessions.", labels, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *connMetrics) Describe(to chan<- *prometheus.Desc) {
	d := &c.descs
	for _, one := range []*prometheus.Desc{d.connections, d.bytes, d.dials, d.hedges, d.replays, d.byProtocol.connect,
		d.byProtocol.firstByte, d.byProtocol.duration, d.byService.connect, d.byService.firstByte, d.byService.duration} {
		to <- one
	}
	d.endpoints.describe(to)
}

// showOwn shows a service port by itself.
func (d *connDescs) showOwn(to chan<- prometheus.Metric, s *shown, b *bounds) {
	if s.counts != nil {
		d.showCounts(to, s.counts, s.labels)
	}
	if s.timings != nil {
		d.byService.show(to, s.timings, b, s.labels...)
	}
	for i := range s.endpoints {
		e := &s.endpoints[i]
		d.endpoints.show(to, &e.endpointCounts, s.labels[0], s.labels[1], e.address, e.pod)
	}
}

// showRest shows the totals of a protocol, and as "other" what has no series of its own, if there is any.
func (d *connDescs) showRest(to chan<- prometheus.Metric, r *rest, b *bounds, protocol string) {
	if len(r.counts.endings) > 0 {
		d.showCounts(to, &r.counts, []string{other, protocol})
	}
	if r.timings.any() {
		d.byService.show(to, &r.timings, b, other, protocol)
	}
	if r.endpoints != (endpointCounts{}) {
		d.endpoints.show(to, &r.endpoints, other, protocol, other, "")
	}
	r.own.add(&r.timings)
	d.byProtocol.show(to, &r.own, b, protocol)
}

func (d *connDescs) showCounts(to chan<- prometheus.Metric, n *counts, labels []string) {
	counter := func(desc *prometheus.Desc, n uint64, more ...string) {
		all := append([]string{labels[0], labels[1]}, more...)
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), all...)
	}
	for _, e := range n.endings {
		counter(d.connections, e.n, e.portal, string(e.outcome))
	}
	counter(d.bytes, n.fromClient, "from_client")
	counter(d.bytes, n.fromEndpoint, "from_endpoint")
	counter(d.dials, n.dialled, "ok")
	counter(d.dials, n.dialFailed, "failed")
	if n.overtaken > 0 {
		counter(d.dials, n.overtaken, record.Overtaken)
	}
	if n.hedgesWon+n.hedgesLost > 0 {
		counter(d.hedges, n.hedgesWon, "won")
		counter(d.hedges, n.hedgesLost, "lost")
	}
	if n.replays > 0 { // few Services allow it
		counter(d.replays, n.replays)
	}
}

func (d *timingDescs) show(to chan<- prometheus.Metric, t *timings, b *bounds, labels ...string) {
	to <- t.connect.metric(d.connect, b.connect, labels...)
	to <- t.firstByte.metric(d.firstByte, b.firstByte, labels...)
	to <- t.duration.metric(d.duration, b.duration, labels...)
}

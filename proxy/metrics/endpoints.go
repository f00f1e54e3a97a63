package metrics

import (
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portald/portald/proxy/record"
)

// endpoint is an endpoint of one service port, and what was counted of it.
type endpoint struct {
	endpointCounts
	place
	pod string // while it is shown in series of its own
}

// endpointCounts are of one endpoint, or of several.
type endpointCounts struct {
	ok, reset, lost, otherwise uint64 // how its connections ended
	closedEarly                uint64
	fromClient, fromEndpoint   uint64 // bytes
	dialled, dialFailed        uint64
	overtaken                  uint64
	dialTime                   time.Duration // of those that worked
	ejections                  uint64
	withFirstByte              uint64        // connections with a byte of the endpoint
	firstByteTime              time.Duration // of those, from the connect
	tcp                        TCPTotals
}

// TCPTotals add up what the kernel told of the sockets towards an endpoint, at the ends of connections.
type TCPTotals struct {
	Connections uint64        // of which it told
	RTT         time.Duration // smoothed, at the end of each, of all together
	Retransmits uint64        // segments that were sent to the endpoint again
	OutOfOrder  uint64        // segments of the endpoint that came out of order
}

func (t *TCPTotals) add(o *TCPTotals) {
	t.Connections += o.Connections
	t.RTT += o.RTT
	t.Retransmits += o.Retransmits
	t.OutOfOrder += o.OutOfOrder
}

// endpointDescs are how Prometheus has them.
type endpointDescs struct {
	connections, bytes, dials, ejections, dialTime, firstByte *prometheus.Desc
	rtt, retransmits, outOfOrder                              *prometheus.Desc // of TCP
}

func newEndpointDescs() endpointDescs {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"service", "protocol", "endpoint", "pod"}, more...), nil)
	}
	return endpointDescs{
		connections: desc("portald_endpoint_connections_total",
			"Finished connections and UDP sessions that reached the endpoint.", "outcome"),
		bytes: desc("portald_endpoint_bytes_total",
			"Bytes carried by finished connections and UDP sessions of the endpoint.", "direction"),
		dials: desc("portald_endpoint_dial_attempts_total",
			"Attempts to reach the endpoint, by finished connections and UDP sessions.", "result"),
		ejections: desc("portald_endpoint_ejections_total",
			"Ejections of the endpoint, because it failed several connections in a row."),
		dialTime: desc("portald_endpoint_dial_seconds",
			"Time of successful dials of the endpoint."),
		firstByte: desc("portald_endpoint_first_byte_seconds",
			"Time from the connect until the endpoint's first byte."),
		rtt: desc("portald_endpoint_rtt_seconds",
			"Smoothed round-trip time to the endpoint, at the end of each TCP connection."),
		retransmits: desc("portald_endpoint_retransmits_total",
			"Segments that were sent to the endpoint again, by finished TCP connections."),
		outOfOrder: desc("portald_endpoint_out_of_order_total",
			"Segments of the endpoint that came out of order, by finished TCP connections."),
	}
}

func (e endpointDescs) describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{e.connections, e.bytes, e.dials, e.ejections, e.dialTime, e.firstByte,
		e.rtt, e.retransmits, e.outOfOrder} {
		to <- d
	}
}

func (e endpointDescs) show(to chan<- prometheus.Metric, n *endpointCounts, labels ...string) {
	counter := func(desc *prometheus.Desc, n uint64, value ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n),
			append(slices.Clip(labels), value...)...)
	}
	counter(e.connections, n.ok, string(record.OutcomeOK))
	counter(e.connections, n.reset, string(record.OutcomeEndpointReset))
	counter(e.connections, n.lost, string(record.OutcomeEndpointLost))
	counter(e.connections, n.otherwise, other)
	if n.closedEarly > 0 {
		counter(e.connections, n.closedEarly, string(record.OutcomeClosedEarly))
	}
	counter(e.bytes, n.fromClient, "from_client")
	counter(e.bytes, n.fromEndpoint, "from_endpoint")
	counter(e.dials, n.dialled, "ok")
	counter(e.dials, n.dialFailed, "failed")
	counter(e.ejections, n.ejections)
	if n.overtaken > 0 {
		counter(e.dials, n.overtaken, record.Overtaken)
	}
	to <- prometheus.MustNewConstSummary(e.dialTime, n.dialled, n.dialTime.Seconds(), nil, labels...)
	to <- prometheus.MustNewConstSummary(e.firstByte, n.withFirstByte, n.firstByteTime.Seconds(), nil, labels...)
	if n.tcp.Connections > 0 {
		to <- prometheus.MustNewConstSummary(e.rtt, n.tcp.Connections, n.tcp.RTT.Seconds(), nil, labels...)
		counter(e.retransmits, n.tcp.Retransmits)
		counter(e.outOfOrder, n.tcp.OutOfOrder)
	}
}

// observe counts a connection at each endpoint that it dialled.
func (p *portCounts) observeEndpoints(r *record.Record) {
	for _, a := range r.Attempts {
		e := p.endpoint(a.Endpoint)
		if a.Ejected {
			e.ejections++
		}
		switch {
		case a.Err == "":
			e.dialled++
			e.dialTime += a.Took
		case a.Failed():
			e.dialFailed += uint64(max(1, a.Times))
		default:
			e.overtaken++
		}
	}
	if r.Connect >= 0 && r.Endpoint.Addr.IsValid() {
		p.endpoint(r.Endpoint.Addr).ended(r)
	}
}

func (p *portCounts) endpoint(at netip.AddrPort) *endpoint {
	e := p.endpoints[at]
	if e == nil {
		e = &endpoint{}
		p.endpoints[at] = e
	}
	return e
}

func (e *endpointCounts) ended(r *record.Record) {
	switch r.Outcome {
	case record.OutcomeOK, record.OutcomeMaxAge:
		e.ok++
	case record.OutcomeEndpointReset:
		e.reset++
	case record.OutcomeEndpointLost:
		e.lost++
	case record.OutcomeClosedEarly:
		e.closedEarly++
	default:
		e.otherwise++
	}
	e.fromClient += uint64(max(0, r.BytesFromClient))
	e.fromEndpoint += uint64(max(0, r.BytesFromEndpoint))
	if wait, ok := firstByte(r); ok {
		e.withFirstByte++
		e.firstByteTime += wait
	}
	if t := &r.EndpointTCP; t.Known {
		e.tcp.add(&TCPTotals{1, t.RTT, uint64(t.Retransmits), uint64(t.OutOfOrder)})
	}
}

func (e *endpointCounts) add(o *endpointCounts) {
	e.ok += o.ok
	e.reset += o.reset
	e.lost += o.lost
	e.otherwise += o.otherwise
	e.fromClient += o.fromClient
	e.fromEndpoint += o.fromEndpoint
	e.dialled += o.dialled
	e.dialFailed += o.dialFailed
	e.overtaken += o.overtaken
	e.dialTime += o.dialTime
	e.ejections += o.ejections
	e.withFirstByte += o.withFirstByte
	e.firstByteTime += o.firstByteTime
	e.tcp.add(&o.tcp)
}

package admin

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/splice"
)

// connMetrics count finished connections and UDP sessions. To look a child of a vector up costs more than to count
// with it, so each service port keeps those it uses.
type connMetrics struct {
	connections, bytes, dials *prometheus.CounterVec
	duration, connect         *prometheus.HistogramVec // not by service: twenty series for each of 10,000 are too many
	tcp, udp                  times

	ports sync.Map   // service.PortName → *portMetrics
	mu    sync.Mutex // held to create and to remove children, so that none outlives its service port
}

// times are the histograms of one protocol.
type times struct{ duration, connect prometheus.Observer }

// portMetrics are the children of one service port.
type portMetrics struct {
	labels                   [2]string // service, protocol
	fromClient, fromEndpoint prometheus.Counter
	dialled, dialFailed      prometheus.Counter
	forgotten                bool                                          // guarded by connMetrics.mu
	connections              atomic.Pointer[map[ending]prometheus.Counter] // replaced under connMetrics.mu
}

// ending is what the connections of one service port are counted by.
type ending struct {
	portal  service.Kind
	outcome splice.Outcome
}

func (c *connMetrics) init() {
	c.connections = counters("portald_connections_total",
		"Finished connections and UDP sessions.", "service", "protocol", "portal", "outcome")
	c.bytes = counters("portald_connection_bytes_total",
		"Bytes carried by finished connections and UDP sessions.", "service", "protocol", "direction")
	c.dials = counters("portald_dial_attempts_total",
		"Attempts to reach an endpoint, by finished connections and UDP sessions.", "service", "protocol", "result")
	c.duration = histograms("portald_connection_duration_seconds",
		"Duration of finished connections and UDP sessions.",
		[]float64{.01, .1, 1, 10, 60, 600, 3600}, "protocol")
	// The last five part the connections by the try that worked: the first dial may take 250 ms, two of them 750 ms.
	c.connect = histograms("portald_connect_seconds",
		"Time from the accept until an endpoint was connected, retries included.",
		[]float64{.0005, .001, .005, .025, .25, .75, 1.75, 3.75}, "protocol")
	c.tcp, c.udp = c.timesOf(service.TCP), c.timesOf(service.UDP)
}

func (c *connMetrics) timesOf(p service.Protocol) times {
	return times{c.duration.WithLabelValues(p.String()), c.connect.WithLabelValues(p.String())}
}

func (c *connMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{c.connections, c.bytes, c.dials, c.duration, c.connect}
}

// Observe implements splice.Observer: it counts the record. It blocks for no longer than a short critical section,
// and that only when a service port or a way to end is new.
func (m *Metrics) Observe(r *splice.Record) {
	p := m.conns.port(r.Service)
	if n := m.conns.counter(p, ending{r.Portal, r.Outcome}); n != nil {
		n.Inc()
	}
	if r.BytesFromClient > 0 {
		p.fromClient.Add(float64(r.BytesFromClient))
	}
	if r.BytesFromEndpoint > 0 {
		p.fromEndpoint.Add(float64(r.BytesFromEndpoint))
	}
	for _, a := range r.Attempts {
		if a.Err == "" {
			p.dialled.Inc()
		} else {
			p.dialFailed.Inc()
		}
	}
	t := &m.conns.tcp
	if r.Service.Protocol == service.UDP {
		t = &m.conns.udp
	}
	if r.Connect >= 0 {
		t.connect.Observe(r.Connect.Seconds())
	}
	t.duration.Observe(r.Duration.Seconds())
}

// port returns the children of a service port.
func (c *connMetrics) port(name service.PortName) *portMetrics {
	if p, ok := c.ports.Load(name); ok {
		return p.(*portMetrics)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.ports.Load(name); ok {
		return p.(*portMetrics)
	}
	svc, proto := name.Label(), name.Protocol.String()
	p := &portMetrics{
		labels:       [2]string{svc, proto},
		fromClient:   c.bytes.WithLabelValues(svc, proto, "from_client"),
		fromEndpoint: c.bytes.WithLabelValues(svc, proto, "from_endpoint"),
		dialled:      c.dials.WithLabelValues(svc, proto, "ok"),
		dialFailed:   c.dials.WithLabelValues(svc, proto, "failed"),
	}
	p.connections.Store(&map[ending]prometheus.Counter{})
	c.ports.Store(name, p)
	return p
}

// counter returns the counter of one way to end, nil when the service port was forgotten meanwhile.
func (c *connMetrics) counter(p *portMetrics, e ending) prometheus.Counter {
	if n, ok := (*p.connections.Load())[e]; ok {
		return n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := *p.connections.Load()
	if n, ok := known[e]; ok || p.forgotten {
		return n
	}
	more := make(map[ending]prometheus.Counter, len(known)+1)
	for k, v := range known {
		more[k] = v
	}
	more[e] = c.connections.WithLabelValues(p.connectionLabels(e)...)
	p.connections.Store(&more)
	return more[e]
}

func (p *portMetrics) connectionLabels(e ending) []string {
	portal := e.portal.String()
	if e.outcome == splice.OutcomeNotPortal {
		portal = ""
	}
	return []string{p.labels[0], p.labels[1], portal, string(e.outcome)}
}

// Forget drops what was counted of a service port that is gone. Connections that outlive it count anew when they end,
// until Retain or another Forget.
func (m *Metrics) Forget(name service.PortName) { m.conns.forget(name) }

// Retain drops what was counted of all service ports but those wanted: a resync's. It costs O(those counted).
func (m *Metrics) Retain(wanted func(service.PortName) bool) {
	m.conns.ports.Range(func(name, _ any) bool {
		if n := name.(service.PortName); !wanted(n) {
			m.conns.forget(n)
		}
		return true
	})
}

func (c *connMetrics) forget(name service.PortName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.ports.LoadAndDelete(name)
	if !ok {
		return
	}
	p := found.(*portMetrics)
	p.forgotten = true
	svc, proto := p.labels[0], p.labels[1]
	for e := range *p.connections.Load() {
		c.connections.DeleteLabelValues(p.connectionLabels(e)...)
	}
	for _, direction := range []string{"from_client", "from_endpoint"} {
		c.bytes.DeleteLabelValues(svc, proto, direction)
	}
	for _, result := range []string{"ok", "failed"} {
		c.dials.DeleteLabelValues(svc, proto, result)
	}
}

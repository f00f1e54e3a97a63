package admin

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/splice"
)

// connMetrics counts finished connections and UDP sessions. The counters of a service port are adjacent in memory, and
// its front holds a pointer to them: with ten thousand Services every other lookup misses the caches, and costs as much
// as all counting.
type connMetrics struct {
	connections, bytes, dials *prometheus.Desc
	duration, connect         *prometheus.HistogramVec // not by service: twenty series for each of 10,000 are too many
	tcp, udp                  times

	mu    sync.Mutex
	ports map[service.PortName]*portCounts // guarded by mu
}

// times are the histograms of one protocol.
type times struct{ duration, connect prometheus.Observer }

// portCounts count one service port. It is the observer of its connections.
type portCounts struct {
	all   *connMetrics
	times *times
	next  splice.Observer // nil = none

	fromClient, fromEndpoint atomic.Uint64
	dialled, dialFailed      atomic.Uint64
	first                    [2]endingCount // by kind of portal and outcome, in the order seen: most ports see no more
	seen                     atomic.Int32   // how many of first are in use; grows under connMetrics.mu
	others                   atomic.Pointer[[]*endingCount]
}

// endingCount counts the connections of one service port with one kind of portal and outcome.
type endingCount struct {
	portal  string
	outcome splice.Outcome
	n       atomic.Uint64
}

func (c *connMetrics) init() {
	c.connections = prometheus.NewDesc("portald_connections_total",
		"Finished connections and UDP sessions.", []string{"service", "protocol", "portal", "outcome"}, nil)
	c.bytes = prometheus.NewDesc("portald_connection_bytes_total",
		"Bytes carried by finished connections and UDP sessions.", []string{"service", "protocol", "direction"}, nil)
	c.dials = prometheus.NewDesc("portald_dial_attempts_total",
		"Attempts to reach an endpoint, by finished connections and UDP sessions.",
		[]string{"service", "protocol", "result"}, nil)
	c.duration = histograms("portald_connection_duration_seconds",
		"Duration of finished connections and UDP sessions.",
		[]float64{.01, .1, 1, 10, 60, 600, 3600}, "protocol")
	// The last five part the connections by the try that worked: the first dial may take 250 ms, two of them 750 ms.
	c.connect = histograms("portald_connect_seconds",
		"Time from the accept until an endpoint was connected, retries included.",
		[]float64{.0005, .001, .005, .025, .25, .75, 1.75, 3.75}, "protocol")
	c.tcp, c.udp = c.timesOf(service.TCP), c.timesOf(service.UDP)
	c.ports = map[service.PortName]*portCounts{}
}

func (c *connMetrics) timesOf(p service.Protocol) times {
	return times{c.duration.WithLabelValues(p.String()), c.connect.WithLabelValues(p.String())}
}

func (c *connMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{c, c.duration, c.connect}
}

// Observer returns an observer that counts the records of one service port until Forget, and passes them on to next
// unless that is nil. It takes a lock for a short time, and only for a combination of portal and outcome that is new. A
// service port has one observer, with the next of the first call: its fronts of both families share it.
func (m *Metrics) Observer(name service.PortName, next splice.Observer) splice.Observer {
	c := &m.conns
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.ports[name]
	if p == nil {
		p = &portCounts{all: c, times: &c.tcp, next: next}
		if name.Protocol == service.UDP {
			p.times = &c.udp
		}
		c.ports[name] = p
	}
	return p
}

// Forget removes the series of a service port that is gone. Its connections that are still open are then counted only
// in the histograms of their protocol.
func (m *Metrics) Forget(name service.PortName) {
	m.conns.mu.Lock()
	defer m.conns.mu.Unlock()
	delete(m.conns.ports, name)
}

// Observe implements splice.Observer.
func (p *portCounts) Observe(r *splice.Record) {
	if p.next != nil {
		p.next.Observe(r)
	}
	p.ending(r).n.Add(1)
	if r.BytesFromClient > 0 {
		p.fromClient.Add(uint64(r.BytesFromClient))
	}
	if r.BytesFromEndpoint > 0 {
		p.fromEndpoint.Add(uint64(r.BytesFromEndpoint))
	}
	for _, a := range r.Attempts {
		if a.Err == "" {
			p.dialled.Add(1)
		} else {
			p.dialFailed.Add(uint64(max(1, a.Times)))
		}
	}
	if r.Connect >= 0 {
		p.times.connect.Observe(r.Connect.Seconds())
	}
	p.times.duration.Observe(r.Duration.Seconds())
}

// ending returns the counter for the portal and outcome of a connection.
func (p *portCounts) ending(r *splice.Record) *endingCount {
	portal := r.Portal.String()
	if r.Outcome == splice.OutcomeNotPortal {
		portal = ""
	}
	if e := p.find(portal, r.Outcome); e != nil {
		return e
	}
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if e := p.find(portal, r.Outcome); e != nil {
		return e
	}
	if i := p.seen.Load(); int(i) < len(p.first) {
		e := &p.first[i]
		e.portal, e.outcome = portal, r.Outcome
		p.seen.Add(1)
		return e
	}
	e := &endingCount{portal: portal, outcome: r.Outcome}
	more := append(slices.Clone(p.rest()), e)
	p.others.Store(&more)
	return e
}

func (p *portCounts) find(portal string, outcome splice.Outcome) *endingCount {
	for i := range p.seen.Load() {
		if e := &p.first[i]; e.outcome == outcome && e.portal == portal {
			return e
		}
	}
	for _, e := range p.rest() {
		if e.outcome == outcome && e.portal == portal {
			return e
		}
	}
	return nil
}

func (p *portCounts) rest() []*endingCount {
	if others := p.others.Load(); others != nil {
		return *others
	}
	return nil
}

// Describe implements prometheus.Collector for what is counted by service port.
func (c *connMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- c.connections
	to <- c.bytes
	to <- c.dials
}

// Collect implements prometheus.Collector. Service ports without a finished connection are left out.
func (c *connMetrics) Collect(to chan<- prometheus.Metric) {
	for name, p := range c.known() {
		seen := p.seen.Load()
		if seen == 0 {
			continue
		}
		label, protocol := name.Label(), name.Protocol.String()
		counter := func(desc *prometheus.Desc, n *atomic.Uint64, labels ...string) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n.Load()),
				append([]string{label, protocol}, labels...)...)
		}
		for i := range seen {
			counter(c.connections, &p.first[i].n, p.first[i].portal, string(p.first[i].outcome))
		}
		for _, e := range p.rest() {
			counter(c.connections, &e.n, e.portal, string(e.outcome))
		}
		counter(c.bytes, &p.fromClient, "from_client")
		counter(c.bytes, &p.fromEndpoint, "from_endpoint")
		counter(c.dials, &p.dialled, "ok")
		counter(c.dials, &p.dialFailed, "failed")
	}
}

// known returns a copy, so that a scrape blocks nobody.
func (c *connMetrics) known() map[service.PortName]*portCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.ports)
}

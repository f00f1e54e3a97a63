package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/portald/portald/proxy/record"
)

// waitMetrics are of connections and UDP sessions that wait for an endpoint.
type waitMetrics struct{ served, unserved prometheus.Observer }

func (w *waitMetrics) init(registry *prometheus.Registry) {
	times := histograms("portald_wait_seconds", "Time that connections and UDP sessions waited for an endpoint, "+
		"by whether they were then served.",
		[]float64{.1, .5, 1, 2.5, 5, 10, 30, 60, 300}, "result")
	w.served, w.unserved = times.WithLabelValues("served"), times.WithLabelValues("unserved")
	registry.MustRegister(times)
}

// Waited counts how long a connection waited for an endpoint, if it did.
func (m *Metrics) Waited(r *record.Record) {
	switch {
	case r.Waited == 0:
	case r.Connect >= 0:
		m.waits.served.Observe(r.Waited.Seconds())
	default:
		m.waits.unserved.Observe(r.Waited.Seconds())
	}
}

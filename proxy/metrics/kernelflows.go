package metrics

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// kernelMetrics count the records of connections that the kernel carried.
type kernelMetrics struct {
	desc   *prometheus.Desc
	mu     sync.Mutex
	known  func(service.PortName) bool // nil: all are; what follows is guarded by mu
	places places
	ports  map[service.PortName]map[record.Outcome]uint64 // those without a place together, by protocol
}

func (k *kernelMetrics) init(l Limits) {
	k.desc = prometheus.NewDesc("portald_kernel_connections_total",
		"Finished connections and UDP flows that the kernel carried and that have a record.",
		[]string{"service", "protocol", "outcome"}, nil)
	k.places, k.ports = newPlaces(l.Services), map[service.PortName]map[record.Outcome]uint64{}
}

// KernelEnded counts a record of a connection that the kernel carried.
func (m *Metrics) KernelEnded(r *record.Record) {
	m.kernel.mu.Lock()
	defer m.kernel.mu.Unlock()
	m.kernel.of(r.Service)[r.Outcome]++
}

// of returns the counts of a service port, or of all others of its protocol.
func (k *kernelMetrics) of(name service.PortName) map[record.Outcome]uint64 {
	counts := k.ports[name]
	if counts == nil && !k.place(name) {
		name = service.PortName{Protocol: name.Protocol}
		counts = k.ports[name]
	}
	if counts == nil {
		counts = map[record.Outcome]uint64{}
		k.ports[name] = counts
	}
	return counts
}

// place takes a place for a service port. One that is gone gets none, since nobody would give it back: the kernel tells
// of connections minutes after their end.
func (k *kernelMetrics) place(name service.PortName) bool {
	return (k.known == nil || k.known(name)) && k.places.take(name.Namespace)
}

// WatchKernelRecords exports how many ends of flows were lost, which it reads at each scrape. Known tells which service
// ports there are: records of others are counted together. It may be called once.
func (m *Metrics) WatchKernelRecords(lost func() uint64, known func(service.PortName) bool) {
	m.kernel.mu.Lock()
	m.kernel.known = known
	m.kernel.mu.Unlock()
	m.registry.MustRegister(counterFunc("portald_kernel_records_lost_total",
		"Connections that the kernel carried and whose ends came too fast to be recorded.", lost))
}

func (k *kernelMetrics) forget(name service.PortName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ports[name] != nil {
		delete(k.ports, name)
		k.places.give(name.Namespace)
	}
}

// Describe implements prometheus.Collector.
func (k *kernelMetrics) Describe(to chan<- *prometheus.Desc) { to <- k.desc }

// Collect implements prometheus.Collector.
func (k *kernelMetrics) Collect(to chan<- prometheus.Metric) {
	for name, counts := range k.copied() {
		label := name.Label()
		if name.Name == "" {
			label = other
		}
		for outcome, n := range counts {
			to <- prometheus.MustNewConstMetric(k.desc, prometheus.CounterValue, float64(n),
				label, name.Protocol.String(), string(outcome))
		}
	}
}

// copied returns a copy, so that a scrape blocks nobody.
func (k *kernelMetrics) copied() map[service.PortName]map[record.Outcome]uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make(map[service.PortName]map[record.Outcome]uint64, len(k.ports))
	for name, counts := range k.ports {
		out[name] = maps.Clone(counts)
	}
	return out
}

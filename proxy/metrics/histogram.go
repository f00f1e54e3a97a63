package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxBuckets is how many buckets a histogram has, with the one for what is beyond its bounds.
const maxBuckets = 9

// histogram counts durations, with an exemplar in each bucket: the latest record that fell into it.
type histogram struct {
	buckets [maxBuckets]bucket
	sum     time.Duration
}

// bucket has its exemplar beside its count: to fetch another cache line costs as much as all counting.
type bucket struct {
	n    uint64
	last exemplar
}

type exemplar struct {
	id      uint64
	service *string // its label
	value   float32 // seconds
	at      uint32  // Unix time in seconds
}

// observe counts d, of the record that the exemplar names.
func (h *histogram) observe(bounds []time.Duration, d time.Duration, of exemplar) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	of.value = float32(d.Seconds())
	h.buckets[i].n++
	h.buckets[i].last = of
	h.sum += d
}

// add adds what another histogram of the same bounds has counted.
func (h *histogram) add(o *histogram) {
	for i := range h.buckets {
		h.buckets[i].n += o.buckets[i].n
		if last := o.buckets[i].last; last.at >= h.buckets[i].last.at {
			h.buckets[i].last = last
		}
	}
	h.sum += o.sum
}

// Counted is a histogram: how many durations were no longer than each bound, and longer than the one before. The last
// count has no bound.
type Counted struct {
	Bounds []time.Duration
	Counts []uint64
}

// counted is the histogram without its exemplars.
func (h *histogram) counted(bounds []time.Duration) Counted {
	c := Counted{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}
	for i := range c.Counts {
		c.Counts[i] = h.buckets[i].n
	}
	return c
}

// metric is the histogram as Prometheus has it.
func (h *histogram) metric(desc *prometheus.Desc, bounds []time.Duration, labels ...string) prometheus.Metric {
	below, n := make(map[float64]uint64, len(bounds)), uint64(0)
	var exemplars []prometheus.Exemplar
	for i := range len(bounds) + 1 {
		b := &h.buckets[i]
		n += b.n
		if i < len(bounds) {
			below[bounds[i].Seconds()] = n
		}
		if b.last.service != nil {
			exemplars = append(exemplars, b.last.labelled())
		}
	}
	m := prometheus.MustNewConstHistogram(desc, n, h.sum.Seconds(), below, labels...)
	if with, err := prometheus.NewMetricWithExemplars(m, exemplars...); err == nil {
		return with
	}
	return m // it has none
}

// labelled leaves the Service out where its name is too long for an exemplar: tenants choose names.
func (e exemplar) labelled() prometheus.Exemplar {
	labels := prometheus.Labels{"record_id": strconv.FormatUint(e.id, 10)}
	const names = len("record_id") + len("service")
	if names+len(labels["record_id"])+len(*e.service) <= prometheus.ExemplarMaxRunes {
		labels["service"] = *e.service
	}
	return prometheus.Exemplar{Value: float64(e.value), Labels: labels, Timestamp: time.Unix(int64(e.at), 0)}
}

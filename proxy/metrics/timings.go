package metrics

import (
	"time"

	"github.com/portald/portald/proxy/record"
)

// timings are histograms of the connections of a service port, or of several.
type timings struct {
	connect   histogram // from the accept
	firstByte histogram // from the connect
	duration  histogram
}

// bounds are the upper bounds of the buckets of timings.
type bounds struct{ connect, firstByte, duration []time.Duration }

func newBounds() bounds {
	return bounds{
		// The last five part the connections by the try that worked: the first dial may take 250 ms, two of them 750 ms.
		connect:   seconds(.0005, .001, .005, .025, .25, .75, 1.75, 3.75),
		firstByte: seconds(.001, .005, .025, .1, .5, 1, 5, 30),
		duration:  seconds(.01, .1, 1, 10, 60, 600, 3600),
	}
}

func seconds(all ...float64) (out []time.Duration) {
	for _, s := range all {
		out = append(out, time.Duration(s*float64(time.Second)))
	}
	return out
}

// observe counts a connection of the service port with this label.
func (t *timings) observe(b *bounds, r *record.Record, label *string) {
	of := exemplar{id: r.ID, service: label, at: uint32(r.Start.Add(r.Duration).Unix())}
	if r.Connect >= 0 {
		t.connect.observe(b.connect, r.Connect, of)
	}
	if wait, ok := firstByte(r); ok {
		t.firstByte.observe(b.firstByte, wait, of)
	}
	t.duration.observe(b.duration, r.Duration, of)
}

// firstByte is how long an endpoint took from the connect until its first byte.
func firstByte(r *record.Record) (time.Duration, bool) {
	if r.FirstByte < 0 || r.Connect < 0 {
		return 0, false
	}
	return max(0, r.FirstByte-r.Connect), true
}

func (t *timings) add(o *timings) {
	t.connect.add(&o.connect)
	t.firstByte.add(&o.firstByte)
	t.duration.add(&o.duration)
}

// any tells whether a connection was counted.
func (t *timings) any() bool { return t.duration != histogram{} }

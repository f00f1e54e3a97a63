package inspect

import (
	"bytes"

	"github.com/portald/portald/proxy/explain"
)

// probes are the rows of a report's probes.
func (s sheet) probes(b []byte, rows []explain.Probe) []byte {
	if len(rows) == 0 {
		return b
	}
	type row = *explain.Probe
	t := newTable([]column[explain.Probe]{
		{name: "ENDPOINT", cell: func(b []byte, p row) []byte { return appendAddress(b, p.Endpoint) }},
		{name: "POD", cell: func(b []byte, p row) []byte { return appendText(b, p.Pod) }},
		{name: "CONNECT", cell: func(b []byte, p row) []byte { return appendText(b, p.Connect) }},
		{name: "HOST", cell: func(b []byte, p row) []byte { return appendText(b, p.Host) }},
		{name: "TIME", cell: appendProbeTime},
		{name: "VERDICT", paint: func(p row) paint { return s.paint(p.Status) },
			cell: func(b []byte, p row) []byte { return appendText(b, p.Verdict) }},
	}, false)
	t.color = s.color
	for i := range rows {
		t.add(&rows[i])
	}
	var out bytes.Buffer
	_ = t.flush(&out, true) // a buffer takes everything
	return append(b, out.Bytes()...)
}

// appendProbeTime writes how long a connect took.
func appendProbeTime(b []byte, p *explain.Probe) []byte {
	if p.Connect == "" {
		return append(b, none...)
	}
	return appendMillis(b, p.TookMS)
}

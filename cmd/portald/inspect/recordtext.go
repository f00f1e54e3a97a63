package inspect

import (
	"slices"
	"strconv"
	"time"

	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/record"
)

// recordColumns are the columns of records in a table. Of records that are live, which are not all known when the first
// is printed, they have at least the width of what they mostly hold.
func recordColumns(dial *Dial, live bool) []column[connlog.Line] {
	type row = *connlog.Line
	columns := []column[connlog.Line]{
		{name: "TIME", min: len(recordTime), cell: func(b []byte, l row) []byte { return appendTime(b, l.Time.Time) }},
		{name: "ID", min: 8, cell: func(b []byte, l row) []byte { return appendID(b, l.ID) }},
		{name: "SERVICE", min: 20, cell: func(b []byte, l row) []byte { return appendText(b, l.Service) }},
		{name: "PROTO", cell: func(b []byte, l row) []byte { return appendText(b, l.Protocol) }},
		{name: "CLIENT", min: 19, cell: func(b []byte, l row) []byte { return appendAddress(b, l.Client) }},
		{name: "ENDPOINT", min: 19, cell: func(b []byte, l row) []byte { return appendAddress(b, l.Endpoint) }},
		{name: "POD", min: 20, cell: func(b []byte, l row) []byte { return appendText(b, l.Pod) }},
		{name: "OUTCOME", min: 14, paint: func(l row) paint { return paintOutcome(l.Outcome) },
			cell: func(b []byte, l row) []byte { return appendText(b, string(l.Outcome)) }},
		{name: "CLOSED", min: 17, cell: appendClosed},
		{name: "TERM", cell: func(b []byte, l row) []byte { return appendText(b, l.Termination) }},
		{name: "DIALS", cell: func(b []byte, l row) []byte { return strconv.AppendInt(b, int64(l.Dials()), 10) }},
		{name: "UP", min: 5, cell: func(b []byte, l row) []byte { return appendSize(b, l.BytesFromClient) }},
		{name: "DOWN", min: 5, cell: func(b []byte, l row) []byte { return appendSize(b, l.BytesFromEndpoint) }},
		{name: "DURATION", cell: func(b []byte, l row) []byte { return appendLasted(b, l.DurationMS) }},
		{name: "ERROR", cell: func(b []byte, l row) []byte { return appendText(b, l.Error) }},
	}
	columns = withNode(dial, func(l row) string { return l.PortaldNode }, columns)
	for i := range columns {
		if !live {
			columns[i].min = 0
		}
	}
	return columns
}

func appendTime(b []byte, t time.Time) []byte { return t.UTC().AppendFormat(b, recordTime) }

// appendClosed writes how the connection was closed, and by whom: reset/endpoint.
func appendClosed(b []byte, l *connlog.Line) []byte {
	b = appendText(b, string(l.CloseType))
	if l.ClosedBy != "" {
		b = appendText(append(b, '/'), string(l.ClosedBy))
	}
	return b
}

// appendLasted writes milliseconds, minutes and hours as kubectl does.
func appendLasted(b []byte, ms float64) []byte {
	if ms < 120_000 {
		return appendMillis(b, ms)
	}
	return appendDuration(b, time.Duration(ms*float64(time.Millisecond)))
}

// paintOutcome shows what went well, what a side or a setting ended, and what was not served. A word that is no outcome
// is plain.
func paintOutcome(o record.Outcome) paint {
	switch o {
	case record.OutcomeOK, record.OutcomeMaxAge:
		return green
	case record.OutcomeClientReset, record.OutcomeIdle, record.OutcomeHalfClosed, record.OutcomeEndpointRemoved,
		record.OutcomeServiceRemoved, record.OutcomeCut:
		return yellow
	}
	if slices.Contains(record.Outcomes(), o) {
		return red
	}
	return plain
}

// appendCompact writes a record as one line, nearly as the log of format text has it.
func appendCompact(b []byte, l *connlog.Line, color bool) []byte {
	b = append(appendTime(b, l.Time.Time), ' ')
	if l.PortaldNode != "" {
		b = append(appendText(b, l.PortaldNode), ' ')
	}
	b = appendText(b, l.Service)
	b = appendText(append(b, ' '), l.Protocol)
	b = appendAddress(append(b, ' '), l.Client)
	if l.ClientPod != "" {
		b = appendText(append(b, ' '), l.ClientPod)
	}
	b = appendAddress(append(b, " → "...), l.OriginalDst)
	if l.Proxy.IsValid() {
		b = appendAddress(append(b, " → "...), l.Proxy)
	}
	b = appendAddress(append(b, " → "...), l.Endpoint)
	if l.Pod != "" {
		b = appendText(append(b, ' '), l.Pod)
	}
	b = appendOutcome(append(b, "  "...), l, color)
	b = append(appendSize(append(b, "  "...), l.BytesFromClient), " up"...)
	b = append(appendSize(append(b, "  "...), l.BytesFromEndpoint), " down"...)
	b = appendLasted(append(b, "  "...), l.DurationMS)
	for i := range l.Attempts {
		b = appendTried(b, &l.Attempts[i])
	}
	return append(b, '\n')
}

// appendOutcome writes how it ended; of a connection that has not, which event it is.
func appendOutcome(b []byte, l *connlog.Line, color bool) []byte {
	if l.Outcome == "" {
		return appendText(b, string(l.Event))
	}
	p := plain
	if color {
		p = paintOutcome(l.Outcome)
	}
	b = p.append(b, appendText(nil, string(l.Outcome)))
	if l.CloseType != "" {
		b = appendText(append(b, "  "...), string(l.CloseType))
	}
	if l.ClosedBy != "" {
		b = appendText(append(b, " by "...), string(l.ClosedBy))
	}
	if l.Error != "" {
		b = append(appendText(append(b, " ("...), l.Error), ')')
	}
	return b
}

// appendTried writes an attempt that failed.
func appendTried(b []byte, a *connlog.Attempt) []byte {
	if a.Error == "" {
		return b
	}
	b = appendAddress(append(b, "  [tried "...), a.Endpoint)
	b = appendText(append(b, ": "...), a.Error)
	if a.Times > 1 {
		b = append(strconv.AppendInt(append(b, ' '), int64(a.Times), 10), " times in"...)
	}
	if a.MS > 0 { // else it is not known
		b = appendMillis(append(b, ' '), a.MS)
	}
	return append(b, ']')
}

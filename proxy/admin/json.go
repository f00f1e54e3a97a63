package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy/splice"
)

// recordField is the field of a log entry that carries the record.
const recordField = "record"

// jsonLine is a record in the JSON log. Every line has every field, but for what was delivered, which is left out where
// it is all that was read. A time that never came is null, a missing address or word is "", no attempts are [].
type jsonLine struct {
	Time              string           `json:"time"` // of the accept: the line itself is written at the end
	ID                uint64           `json:"id"`
	Service           string           `json:"service"`
	Protocol          string           `json:"protocol"`
	Client            string           `json:"client"`
	OriginalDst       string           `json:"original_dst"`
	Portal            string           `json:"portal"`
	Proxy             string           `json:"proxy"` // our own address towards the endpoint
	Endpoint          string           `json:"endpoint"`
	Pod               string           `json:"pod"`
	Node              string           `json:"node"` // the endpoint's
	Attempts          []jsonAttempt    `json:"attempts"`
	Affinity          string           `json:"affinity"`
	BytesFromClient   int64            `json:"bytes_from_client"`
	BytesToEndpoint   *int64           `json:"bytes_to_endpoint,omitempty"`
	BytesFromEndpoint int64            `json:"bytes_from_endpoint"`
	BytesToClient     *int64           `json:"bytes_to_client,omitempty"`
	ConnectMS         *float64         `json:"connect_ms"`
	FirstByteMS       *float64         `json:"first_byte_ms"`
	DurationMS        float64          `json:"duration_ms"`
	ClosedBy          splice.Side      `json:"closed_by"`
	CloseType         splice.CloseType `json:"close_type"`
	Outcome           string           `json:"outcome"`
	Error             string           `json:"error"`
}

type jsonAttempt struct {
	Endpoint string  `json:"endpoint"`
	Proxy    string  `json:"proxy,omitempty"`
	MS       float64 `json:"ms"`
	Error    string  `json:"error,omitempty"`
	Times    int     `json:"times,omitempty"` // more than one alike
}

// jsonFormatter writes the record of an entry as one line of JSON. One goroutine may use it.
type jsonFormatter struct {
	buf     bytes.Buffer
	encoder *json.Encoder
	line    jsonLine
	connect float64
	first   float64
}

func newJSONFormatter() *jsonFormatter {
	f := &jsonFormatter{}
	f.encoder = json.NewEncoder(&f.buf)
	f.encoder.SetEscapeHTML(false)
	return f
}

// Format implements logrus.Formatter. What it returns is valid until the next call.
func (f *jsonFormatter) Format(e *logrus.Entry) ([]byte, error) {
	r, ok := e.Data[recordField].(*splice.Record)
	if !ok {
		return nil, fmt.Errorf("format log entry %q: it carries no record", e.Message)
	}
	f.fill(r)
	f.buf.Reset()
	if err := f.encoder.Encode(&f.line); err != nil {
		return nil, fmt.Errorf("encode record %d: %w", r.ID, err)
	}
	return f.buf.Bytes(), nil
}

func (f *jsonFormatter) fill(r *splice.Record) {
	f.line = jsonLine{
		Time:              timestamp(r.Start),
		ID:                r.ID,
		Service:           r.Service.Label(),
		Protocol:          r.Service.Protocol.String(),
		Client:            address(r.Client),
		OriginalDst:       address(r.OriginalDst),
		Portal:            portalKind(r),
		Proxy:             address(r.Proxy()),
		Endpoint:          address(r.Endpoint.Addr),
		Pod:               r.Endpoint.Pod,
		Node:              r.Endpoint.Node,
		Attempts:          f.line.Attempts[:0],
		Affinity:          r.Affinity,
		BytesFromClient:   r.BytesFromClient,
		BytesToEndpoint:   ifOther(&r.BytesToEndpoint, r.BytesFromClient),
		BytesFromEndpoint: r.BytesFromEndpoint,
		BytesToClient:     ifOther(&r.BytesToClient, r.BytesFromEndpoint),
		ConnectMS:         millisIfAny(r.Connect, &f.connect),
		FirstByteMS:       millisIfAny(r.FirstByte, &f.first),
		DurationMS:        millis(r.Duration),
		ClosedBy:          r.ClosedBy,
		CloseType:         r.CloseType,
		Outcome:           string(r.Outcome),
		Error:             r.Error,
	}
	if f.line.Attempts == nil {
		f.line.Attempts = []jsonAttempt{}
	}
	for _, a := range r.Attempts {
		f.line.Attempts = append(f.line.Attempts,
			jsonAttempt{address(a.Endpoint), address(a.Proxy), millis(a.Took), a.Err, ifMany(a.Times)})
	}
}

// ifOther returns nil if as much was delivered as was read.
func ifOther(delivered *int64, read int64) *int64 {
	if *delivered == read {
		return nil
	}
	return delivered
}

func ifMany(times int) int {
	if times == 1 {
		return 0
	}
	return times
}

// timestamp returns t in UTC as RFC 3339 with six decimals, always, so that columns align. The time package formats
// whole seconds three times as fast as any layout with decimals.
func timestamp(t time.Time) string {
	b := t.UTC().AppendFormat(make([]byte, 0, len("2006-01-02T15:04:05.000000Z")), time.RFC3339)
	b[len(b)-1] = '.'
	for us, unit := t.Nanosecond()/1000, 100_000; unit > 0; unit /= 10 {
		b = append(b, byte('0'+us/unit%10))
	}
	return string(append(b, 'Z'))
}

// portalKind returns the kind of frontend that the client dialled, "" if it dialled none.
func portalKind(r *splice.Record) string {
	if r.Outcome == splice.OutcomeNotPortal {
		return ""
	}
	return r.Portal.String()
}

func address(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// millis returns d in milliseconds, rounded to the microsecond: three decimals at most.
func millis(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}

// millisIfAny puts d in milliseconds into store and returns it, or nil for a time that never came.
func millisIfAny(d time.Duration, store *float64) *float64 {
	if d < 0 {
		return nil
	}
	*store = millis(d)
	return store
}

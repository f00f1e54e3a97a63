package adminsocket

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/payload"
)

// PayloadQuery selects connections that ended badly, of which payload is kept: those that its Filter lets pass, or one
// of the ids where there are any.
type PayloadQuery struct {
	Filter connlog.Filter
	IDs    []uint64
	Last   int // the latest so many
}

// Payload is what is kept of a connection. It is data of clients.
type Payload struct {
	Record           *connlog.Line `json:"record"`
	ClientToEndpoint PayloadStream `json:"client_to_endpoint"`
	EndpointToClient PayloadStream `json:"endpoint_to_client"`
	PortaldNode      string        `json:"portald_node,omitempty"` // whose it is, where several nodes were asked
}

// PayloadStream is one direction of a connection.
type PayloadStream struct {
	Bytes int64         `json:"bytes"` // of all that was sent
	Parts []PayloadPart `json:"parts"` // the first bytes and the last, in order, as far as there are any
	// Lacks is why parts are not just that, or the first bytes are not those at 0; empty: they are.
	Lacks string `json:"lacks,omitempty"`
}

// PayloadPart is bytes that came one after the other.
type PayloadPart struct {
	Offset int64  `json:"offset"` // of the first of them in the stream
	Data   []byte `json:"data"`   // base64
}

// PayloadKept tells of the memory in which a node keeps payload. It is the first line of its answer.
type PayloadKept struct {
	Services    int    `json:"services"`    // service ports that ask for it
	Connections int    `json:"connections"` // of which payload is there
	Bytes       int64  `json:"bytes"`
	MostBytes   int64  `json:"most_bytes"`
	Dropped     uint64 `json:"dropped"` // connections, since the start of the daemon, that there was no room for

	PortaldNode string `json:"-"` // whose it is, where several nodes were asked
}

// keptMark begins the line of a PayloadKept.
const keptMark = `{"kept":`

type keptLine struct {
	Kept        *PayloadKept `json:"kept"`
	PortaldNode string       `json:"portald_node,omitempty"`
}

// Values are the query of a request.
func (q *PayloadQuery) Values() url.Values {
	v := q.Filter.Query()
	v.Set("last", strconv.Itoa(q.Last))
	for _, id := range q.IDs {
		v.Add("id", strconv.FormatUint(id, 10))
	}
	return v
}

// parsePayload is the inverse of Values.
func parsePayload(v url.Values) (*PayloadQuery, error) {
	filter, last, p, err := parseFilter(v, []string{"id"})
	if err != nil {
		return nil, err
	}
	q := &PayloadQuery{Filter: *filter, Last: last}
	q.IDs = each(p, "id", "a number", func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	return q, p.err
}

// wants tells whether a connection is selected.
func (q *PayloadQuery) wants(l *connlog.Line) bool {
	return (len(q.IDs) == 0 || slices.Contains(q.IDs, l.ID)) && q.Filter.Match(l)
}

// payload streams what is kept, a JSON object a line, in the order in which the connections ended. It changes nothing,
// and yet is a POST: connections for those who may only look pass no such request.
func (h *Handler) payload(w http.ResponseWriter, r *http.Request) error {
	query, err := parsePayload(r.URL.Query())
	if err != nil {
		return err
	}
	content := h.daemon.Payload()
	out := bufio.NewWriterSize(w, chunk)
	err = writeJSON(out, keptLine{Kept: &PayloadKept{
		Services: content.Services, Connections: len(content.Entries), Bytes: content.Bytes, MostBytes: content.Most,
		Dropped: content.Dropped,
	}})
	if err != nil {
		return err
	}
	var wanted []payload.Entry
	for _, e := range content.Entries {
		if query.wants(connlog.From(e.Record)) {
			wanted = append(wanted, e)
		}
	}
	for _, e := range wanted[max(0, len(wanted)-query.Last):] {
		err := writeJSON(out, Payload{
			Record:           connlog.From(e.Record),
			ClientToEndpoint: streamOf(&e.FromClient), EndpointToClient: streamOf(&e.FromEndpoint),
		})
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

func streamOf(d *payload.Direction) PayloadStream {
	s := PayloadStream{Bytes: d.Bytes, Lacks: d.Lacks, Parts: []PayloadPart{}}
	for _, p := range d.Parts {
		s.Parts = append(s.Parts, PayloadPart{p.Offset, p.Data})
	}
	return s
}

// Payload calls do for what is kept of each connection that is selected, and kept once before those of a node, until
// one of them fails. It is data of clients.
func (c *Client) Payload(
	ctx context.Context, q PayloadQuery, kept func(PayloadKept) error, do func(*Payload) error,
) error {
	return c.EachLine(ctx, http.MethodPost, "/v1/payload", q.Values(), func() {}, func(line []byte) error {
		if bytes.HasPrefix(line, []byte(keptMark)) {
			var k keptLine
			return readLine(line, &k, func() error {
				if k.Kept == nil {
					return nil
				}
				k.Kept.PortaldNode = k.PortaldNode
				return kept(*k.Kept)
			})
		}
		p := Payload{Record: &connlog.Line{}}
		return readLine(line, &p, func() error {
			p.Record.PortaldNode = p.PortaldNode
			return do(&p)
		})
	})
}

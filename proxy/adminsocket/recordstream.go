package adminsocket

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/record"
)

// RecordQuery selects records.
type RecordQuery struct {
	Filter connlog.Filter
	Last   int  // the latest so many of those in memory
	Follow bool // then those to come, until the client leaves or the daemon ends
	// History: also of the connection log's files, if those in memory do not reach as far back as the Filter, or are
	// fewer than Last; of files there may be more than Last.
	History bool
}

// Gap is in the answer in place of records that came faster than the client read.
type Gap struct {
	Missed      uint64 `json:"missed"`                 // of all records, not of those that match
	PortaldNode string `json:"portald_node,omitempty"` // whose, where several nodes were asked
}

// gapMark begins the line of a gap.
const gapMark = `{"missed":`

// historyKey is the key of History in a query.
const historyKey = "history"

// Values are the query of a request.
func (q *RecordQuery) Values() url.Values {
	v := q.Filter.Query()
	v.Set("last", strconv.Itoa(q.Last))
	if q.Follow {
		v.Set("follow", "1")
	}
	if q.History {
		v.Set(historyKey, "1")
	}
	return v
}

// parseRecords is the inverse of Values. More keys are allowed where they are for root.
func parseRecords(v url.Values, more ...string) (*RecordQuery, error) {
	filter, last, p, err := parseFilter(v, append(more, "follow"))
	if err != nil {
		return nil, err
	}
	q := &RecordQuery{Filter: *filter, Last: last}
	q.Follow = one(p, "follow", "true or false", strconv.ParseBool)
	q.History = one(p, historyKey, "true or false", strconv.ParseBool)
	return q, p.err
}

// parseFilter reads a filter, and how many of the latest records are wanted, from a query that may have more keys: of
// these the parser knows, and has the error of what it has read.
func parseFilter(v url.Values, more []string) (*connlog.Filter, int, *parser, error) {
	known := append(more, "last")
	for _, key := range connlog.Keys() {
		known = append(known, key.Name, "not-"+key.Name)
	}
	if err := onlyKeys(v, known...); err != nil {
		return nil, 0, nil, err
	}
	filter, err := connlog.ParseFilter(v, time.Now())
	if err != nil {
		return nil, 0, nil, badRequest("query: %w", err)
	}
	p := &parser{v, nil}
	return filter, max(0, one(p, "last", "a number", strconv.Atoi)), p, nil
}

// records streams records, a JSON object a line, in the order in which they ended, with a Gap where some are missing.
func (h *Handler) records(w http.ResponseWriter, r *http.Request) error {
	query, err := parseRecords(r.URL.Query())
	if err != nil {
		return err
	}
	to, leave, err := h.lines(w, r, query.Follow)
	if err != nil {
		return err
	}
	defer leave()
	follower := h.daemon.Records.Follow(0)
	defer follower.Close()
	out := newRecordWriter(to, &query.Filter)
	for _, record := range follower.Last(query.Last, out.wants) {
		if err := out.record(record); err != nil {
			return err
		}
	}
	if query.Follow {
		return out.follow(r.Context(), follower)
	}
	return out.flush()
}

// recordWriter writes records to one client.
type recordWriter struct {
	to     *stream
	filter *connlog.Filter
	buffer *bufio.Writer
	line   []byte // to be reused
}

func newRecordWriter(to *stream, filter *connlog.Filter) *recordWriter {
	return &recordWriter{to: to, filter: filter, buffer: bufio.NewWriterSize(to, chunk)}
}

func (w *recordWriter) wants(r *record.Record) bool {
	return w.filter.Empty() || w.filter.Match(connlog.From(r))
}

func (w *recordWriter) record(r *record.Record) error { return w.write(connlog.From(r)) }

func (w *recordWriter) write(l *connlog.Line) error {
	w.line = connlog.AppendJSON(w.line[:0], l)
	_, err := w.buffer.Write(w.line)
	return err
}

// flush sends what was written.
func (w *recordWriter) flush() error {
	if err := w.buffer.Flush(); err != nil {
		return err
	}
	return w.to.flush()
}

// follow writes records until ctx ends, which is the end of the client or of the daemon. Records that are there already
// are sent at once.
func (w *recordWriter) follow(ctx context.Context, follower *connlog.Follower) error {
	if err := w.to.connection.SetReadDeadline(time.Time{}); err != nil { // it would end the stream
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	atOnce, cancel := context.WithCancel(ctx)
	cancel()
	for waiting := ctx; ; {
		record, missed, err := follower.Next(waiting)
		if missed > 0 {
			if err := writeJSON(w.buffer, Gap{Missed: missed}); err != nil {
				return err
			}
		}
		switch {
		case err == nil && w.wants(record):
			if err := w.record(record); err != nil {
				return err
			}
			waiting = atOnce
		case err == nil:
		case waiting == ctx:
			return nil
		default: // there is none now
			if err := w.flush(); err != nil {
				return err
			}
			waiting = ctx
		}
	}
}

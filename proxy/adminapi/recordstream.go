package adminapi

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/portald/portald/proxy/records"
	"github.com/portald/portald/proxy/splice"
)

// RecordQuery selects records.
type RecordQuery struct {
	Filter records.Filter
	Last   int  // the latest so many of those in memory
	Follow bool // then those to come, until the client leaves or the daemon ends
}

// Gap is in the answer in place of records that came faster than the client read.
type Gap struct {
	Missed uint64 `json:"missed"` // of all records, not of those that match
}

// gapMark is what the line of a gap begins with.
const gapMark = `{"missed":`

// Values are the query of a request.
func (q *RecordQuery) Values() url.Values {
	v := q.Filter.Query()
	v.Set("last", strconv.Itoa(q.Last))
	if q.Follow {
		v.Set("follow", "1")
	}
	return v
}

// parseRecords is the inverse of Values.
func parseRecords(v url.Values) (*RecordQuery, error) {
	known := []string{"last", "follow"}
	for _, key := range records.Keys() {
		known = append(known, key.Name, "not-"+key.Name)
	}
	if err := onlyKeys(v, known...); err != nil {
		return nil, err
	}
	filter, err := records.ParseFilter(v, time.Now())
	if err != nil {
		return nil, badRequest("query: %w", err)
	}
	p := parser{v, nil}
	q := &RecordQuery{Filter: *filter}
	q.Last = max(0, one(&p, "last", "a number", strconv.Atoi))
	q.Follow = one(&p, "follow", "true or false", strconv.ParseBool)
	return q, p.err
}

// records streams records, a JSON object a line, in the order in which they ended, with a Gap where some are missing.
func (h *Handler) records(w http.ResponseWriter, r *http.Request) error {
	query, err := parseRecords(r.URL.Query())
	if err != nil {
		return err
	}
	if query.Follow {
		if h.followers.Add(1) > followersOf(r) {
			h.followers.Add(-1)
			return statusError{errTooMany, http.StatusServiceUnavailable}
		}
		defer h.followers.Add(-1)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	follower := h.daemon.Records.Follow(0)
	defer follower.Close()
	out := newRecordWriter(w, &query.Filter)
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

// maxFollowers bounds how many clients follow records at a time: each has the CPU write every record that it wants.
const maxFollowers = 16

var errTooMany = fmt.Errorf("%d clients follow the records already, or half as many at the address of the metrics: "+
	"end one of them", maxFollowers)

// followersOf is how many there may be with one more of this kind. Clients by TCP may be anybody on the host: half of
// the places are left to those of the socket.
func followersOf(r *http.Request) int32 {
	if _, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return maxFollowers / 2
	}
	return maxFollowers
}

// recordWriter writes records to one client.
type recordWriter struct {
	connection *http.ResponseController
	filter     *records.Filter
	buffer     *bufio.Writer
	line       []byte // to be reused
}

func newRecordWriter(w http.ResponseWriter, filter *records.Filter) *recordWriter {
	out := &recordWriter{connection: http.NewResponseController(w), filter: filter}
	out.buffer = bufio.NewWriterSize(patient{w, out.connection}, chunk)
	return out
}

// slowest is how long a client of a stream may leave it unread: a terminal may be stopped for a while.
const slowest = time.Hour

// patient gives up a client that does not read for slowest.
type patient struct {
	http.ResponseWriter
	connection *http.ResponseController
}

func (p patient) Write(text []byte) (int, error) {
	if err := p.connection.SetWriteDeadline(time.Now().Add(slowest)); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(text)
}

func (w *recordWriter) wants(r *splice.Record) bool {
	return w.filter.Empty() || w.filter.Match(records.From(r))
}

func (w *recordWriter) record(r *splice.Record) error {
	w.line = records.AppendJSON(w.line[:0], records.From(r))
	_, err := w.buffer.Write(w.line)
	return err
}

// flush sends what was written.
func (w *recordWriter) flush() error {
	if err := w.connection.SetWriteDeadline(time.Now().Add(slowest)); err != nil {
		return err
	}
	if err := w.buffer.Flush(); err != nil {
		return err
	}
	return w.connection.Flush()
}

// follow writes records until ctx ends, which is the end of the client or of the daemon. What is there is sent at once.
func (w *recordWriter) follow(ctx context.Context, follower *records.Follower) error {
	if err := w.connection.SetReadDeadline(time.Time{}); err != nil { // it would end the stream
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
			if err := writeJSON(w.buffer, Gap{missed}); err != nil {
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

package adminsocket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/record"
)

// Reach is in the answer to a RecordQuery with History, behind the records of files: how far back this node's records
// reach.
type Reach struct {
	Node string `json:"portald_node"`
	// Since is from when on there are records, in files or in memory. The files have those that the settings of the
	// connection log select.
	Since time.Time `json:"since"`
	Files int       `json:"files"` // of the connection log that have records; 0: those in memory reach as far as was asked
	// Why says why not further, and what to do; empty: as far as was asked.
	Why     string   `json:"why,omitempty"`
	Damaged int      `json:"damaged_lines,omitempty"` // that are no records
	Skipped []string `json:"skipped,omitempty"`       // files, or their ends, that could not be read, and why
}

// reachMark begins the line of a Reach.
const reachMark = `{"reach":`

type reachLine struct {
	Reach *Reach `json:"reach"`
}

// maxReaders bounds how many clients have files read at a time: each may take half of a CPU.
const maxReaders = 2

var errManyReaders = fmt.Errorf("%d clients have the connection log's files read already: try again later, or end one "+
	"of them", maxReaders)

// maxKept is up to how many of the latest records are kept here until it is known which are the latest: of more, the
// client gets all.
const maxKept = 8192

// recordsForRoot streams records as records does, from files too.
func (h *Handler) recordsForRoot(w http.ResponseWriter, r *http.Request) error {
	query, err := parseRecords(r.URL.Query(), historyKey)
	switch {
	case err != nil:
		return err
	case !query.History:
		return h.records(w, r)
	}
	to, leave, err := h.lines(w, r, query.Follow)
	if err != nil {
		return err
	}
	defer leave()
	if err := to.connection.SetReadDeadline(time.Time{}); err != nil { // files may take longer than a request
		return err
	}
	past := newPast(newRecordWriter(to, &query.Filter), query.Last)
	reach, err := h.fromFiles(r.Context(), to, query, past)
	if err != nil {
		return err
	}
	return h.fromMemory(r.Context(), query, past, &reach)
}

// fromFiles reads records of files, if those in memory do not do.
func (h *Handler) fromFiles(ctx context.Context, to *stream, query *RecordQuery, past *past) (Reach, error) {
	records := h.daemon.Records
	reach := Reach{Node: h.daemon.Info().Node, Since: records.Since().UTC()}
	since, _ := query.Filter.Between()
	inMemory := !since.IsZero() && !since.Before(reach.Since)
	if inMemory || len(records.Last(query.Last, past.out.wants)) >= query.Last {
		return reach, nil
	}
	if err := h.readers.enter(to); err != nil {
		return reach, err
	}
	defer h.readers.leave(to)
	if err := to.flush(); err != nil { // the client knows that it is answered
		return reach, err
	}
	files, err := h.daemon.Files.Read(ctx, &query.Filter, past.add, past.busy)
	reach.Files, reach.Why, reach.Damaged, reach.Skipped = files.Files, files.Why, files.Damaged, files.Skipped
	if files.Files > 0 && files.Since.Before(reach.Since) {
		reach.Since = files.Since
	}
	return reach, err
}

// fromMemory goes on with the records in memory. They are looked at when the files have been read to their ends: what
// was written to these until then is in past.
func (h *Handler) fromMemory(ctx context.Context, query *RecordQuery, past *past, reach *Reach) error {
	follower := h.daemon.Records.Follow(0)
	defer follower.Close()
	records := slices.DeleteFunc(follower.Last(query.Last, past.out.wants), func(r *record.Record) bool {
		return past.has(recordKey{r.ID, r.Start.UnixMicro()})
	})
	if err := errors.Join(past.end(len(records)), writeJSON(past.out.buffer, reachLine{reach})); err != nil {
		return err
	}
	for _, record := range records {
		if err := past.out.record(record); err != nil {
			return err
		}
	}
	if query.Follow {
		return past.out.follow(ctx, follower)
	}
	return past.out.flush()
}

// past takes the records of files.
type past struct {
	out     *recordWriter
	most    int      // the latest so many are wanted
	kept    [][]byte // up to most lines, a ring, if it is not too many
	all     int
	lately  map[recordKey]bool // those that may be in memory too
	earlier map[recordKey]bool
}

// recordKey tells records apart, in files as in memory.
type recordKey struct {
	id    uint64
	start int64 // in µs of Unix time, as files have it
}

func newPast(out *recordWriter, most int) *past {
	return &past{out: out, most: most, lately: map[recordKey]bool{}}
}

func (p *past) add(l *connlog.Line) error {
	if len(p.lately) > 2*connlog.DefaultStream {
		p.lately, p.earlier = map[recordKey]bool{}, p.lately
	}
	p.lately[recordKey{l.ID, l.Time.UnixMicro()}] = true
	if p.most > maxKept {
		return p.out.write(l)
	}
	if len(p.kept) < p.most {
		p.kept = append(p.kept, nil)
	}
	at := p.all % p.most
	p.kept[at] = connlog.AppendJSON(p.kept[at][:0], l)
	p.all++
	return nil
}

// busy tells the client that files are being read, by an empty line.
func (p *past) busy() error {
	_, err := p.out.buffer.WriteString("\n")
	return errors.Join(err, p.out.flush())
}

func (p *past) has(key recordKey) bool { return p.lately[key] || p.earlier[key] }

// end writes the latest of those that were kept, with so many others behind them.
func (p *past) end(others int) error {
	for i := max(0, p.all-min(len(p.kept), p.most-others)); i < p.all; i++ {
		if _, err := p.out.buffer.Write(p.kept[i%p.most]); err != nil {
			return err
		}
	}
	return nil
}

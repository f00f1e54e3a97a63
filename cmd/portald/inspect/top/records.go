package top

import (
	"context"
	"strconv"
	"time"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/connlog"
)

type recordRow = row[connlog.Line]

// mostRecords is how many of the latest records are listed.
const mostRecords = 200

// newRecords is the page of the latest records, of one Service or of all.
func newRecords(s *screen, service string) *list[connlog.Line] {
	q, title := adminsocket.RecordQuery{Last: mostRecords}, "records"
	refused := error(nil)
	if service != "" {
		title = "records of " + inspect.Text(service)
		refused = q.Filter.Add(false, "service", service, time.Now())
	}
	return newList(&list[connlog.Line]{
		screen: s, title: title, keys: "Enter details", columns: recordColumns(),
		id: func(l *connlog.Line) string {
			return string(l.Event) + strconv.FormatUint(l.ID, 10) + l.Time.String()
		},
		counts: func(*connlog.Line) []uint64 { return nil },
		fetch: func(ctx context.Context, _ listRequest) (out []connlog.Line, err error) {
			if refused != nil {
				return nil, refused
			}
			err = s.client.Records(ctx, q, func(l *connlog.Line) error {
				out = append(out, *l)
				return nil
			}, func(adminsocket.Gap) error { return nil })
			return out, err
		},
		open: func(l *connlog.Line) { s.enter(newRecord(l)) },
	})
}

func recordColumns() []column[connlog.Line] {
	type r = *recordRow
	return []column[connlog.Line]{
		{name: "ENDED", text: func(r r) string { return r.now.End().Local().Format("15:04:05.000") },
			value: func(r r) float64 { return float64(r.now.End().UnixMicro()) }},
		{name: "ID", text: func(r r) string { return inspect.ID(r.now.ID) },
			value: func(r r) float64 { return float64(r.now.ID) }},
		{name: "SERVICE", text: func(r r) string { return inspect.Text(r.now.Service) }},
		{name: "CLIENT", text: func(r r) string { return withPod(r.now.Client, r.now.ClientPod) }},
		{name: "ENDPOINT", text: func(r r) string { return withPod(r.now.Endpoint, r.now.Pod) }},
		{name: "OUTCOME", text: func(r r) string { return inspect.Text(string(r.now.Outcome)) }, paint: paintOutcome},
		number("DIALS", func(l *connlog.Line) int { return len(l.Attempts) }),
		millis("CONNECT", func(l *connlog.Line) *float64 { return l.ConnectMS }),
		millis("FIRST-BYTE", func(l *connlog.Line) *float64 { return l.FirstByteMS }),
		millis("DURATION", func(l *connlog.Line) *float64 { return &l.DurationMS }),
		size("UP", func(l *connlog.Line) int64 { return l.BytesFromClient }),
		size("DOWN", func(l *connlog.Line) int64 { return l.BytesFromEndpoint }),
		{name: "ERROR", text: func(r r) string { return inspect.Text(r.now.Error) }},
	}
}

func paintOutcome(r *recordRow) meaning { return badIf(!r.now.Outcome.Well()) }

// newRecord is the page of one record.
func newRecord(l *connlog.Line) *text {
	t := newText(&text{title: "record " + inspect.ID(l.ID), keys: "Esc back"})
	t.SetText(inspect.Fields(l))
	return t
}

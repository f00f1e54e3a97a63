package top

import (
	"context"
	"strconv"
	"time"

	"github.com/portald/portald/cmd/portald/inspect"
	"github.com/portald/portald/proxy/adminapi"
	"github.com/portald/portald/proxy/records"
)

type recordRow = row[records.Line]

// mostRecords is how many of the latest records are listed.
const mostRecords = 200

// newRecords is the page of the latest records, of one Service or of all.
func newRecords(s *screen, service string) *list[records.Line] {
	q, title := adminapi.RecordQuery{Last: mostRecords}, "records"
	refused := error(nil)
	if service != "" {
		title = "records of " + inspect.Text(service)
		refused = q.Filter.Add(false, "service", service, time.Now())
	}
	return newList(&list[records.Line]{
		screen: s, title: title, keys: "Enter details", columns: recordColumns(),
		id: func(l *records.Line) string {
			return string(l.Event) + strconv.FormatUint(l.ID, 10) + l.Time.String()
		},
		counts: func(*records.Line) []uint64 { return nil },
		ask: func(ctx context.Context, _ wish) (out []records.Line, err error) {
			if refused != nil {
				return nil, refused
			}
			err = s.client.Records(ctx, q, func(l *records.Line) error {
				out = append(out, *l)
				return nil
			}, func(adminapi.Gap) error { return nil })
			return out, err
		},
		open: func(l *records.Line) { s.enter(newRecord(l)) },
	})
}

func recordColumns() []column[records.Line] {
	type r = *recordRow
	return []column[records.Line]{
		{name: "ENDED", text: func(r r) string { return r.now.End().Local().Format("15:04:05.000") },
			value: func(r r) float64 { return float64(r.now.End().UnixMicro()) }},
		{name: "ID", text: func(r r) string { return inspect.ID(r.now.ID) },
			value: func(r r) float64 { return float64(r.now.ID) }},
		{name: "SERVICE", text: func(r r) string { return inspect.Text(r.now.Service) }},
		{name: "CLIENT", text: func(r r) string { return withPod(r.now.Client, r.now.ClientPod) }},
		{name: "ENDPOINT", text: func(r r) string { return withPod(r.now.Endpoint, r.now.Pod) }},
		{name: "OUTCOME", text: func(r r) string { return inspect.Text(string(r.now.Outcome)) }, paint: paintOutcome},
		number("DIALS", func(l *records.Line) int { return len(l.Attempts) }),
		millis("CONNECT", func(l *records.Line) *float64 { return l.ConnectMS }),
		millis("FIRST-BYTE", func(l *records.Line) *float64 { return l.FirstByteMS }),
		millis("DURATION", func(l *records.Line) *float64 { return &l.DurationMS }),
		size("UP", func(l *records.Line) int64 { return l.BytesFromClient }),
		size("DOWN", func(l *records.Line) int64 { return l.BytesFromEndpoint }),
		{name: "ERROR", text: func(r r) string { return inspect.Text(r.now.Error) }},
	}
}

func paintOutcome(r *recordRow) meaning { return badIf(!r.now.Outcome.Well()) }

// newRecord is the page of one record.
func newRecord(l *records.Line) *text {
	t := newText(&text{title: "record " + inspect.ID(l.ID), keys: "Esc back"})
	t.SetText(inspect.Fields(l))
	return t
}

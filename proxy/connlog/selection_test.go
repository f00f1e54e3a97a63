package connlog

import (
	"strings"
	"testing"

	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

type sinkFunc func(Report)

func (f sinkFunc) Put(r Report) { f(r) }

func TestSelection(t *testing.T) {
	retried, hedged, well := sample(), sample(), sample()
	hedged.Attempts[0].Err, hedged.Attempts[1].Hedge = record.Overtaken, true
	well.Attempts = well.Attempts[1:]
	for _, c := range []struct {
		logging service.Logging
		record  *record.Record
		want    bool
	}{
		{service.Logging{}, well, true},
		{service.Logging{Records: service.RecordsAll}, well, true},
		{service.Logging{Records: service.RecordsFailures}, well, false},
		{service.Logging{Records: service.RecordsFailures}, broken(), true},
		{service.Logging{Records: service.RecordsFailures}, retried, true},
		{service.Logging{Records: service.RecordsFailures}, hedged, false},
		{service.Logging{Records: service.RecordsFailures}, stray(), true},
		{service.Logging{Records: service.RecordsOff}, well, false},
		{service.Logging{Records: service.RecordsOff}, broken(), false},
		{service.Logging{Sample: 1 << 30}, well, false},
		{service.Logging{Sample: 1 << 30}, broken(), true},
		{service.Logging{Sample: 1 << 30, Records: service.RecordsOff}, broken(), false},
	} {
		var got []Report
		s := NewSelection([]Event{End}, sinkFunc(func(r Report) { got = append(got, r) }))
		r := *c.record
		r.Logging = c.logging
		s.Observe(&r)
		if (len(got) == 1) != c.want || (s.SampledOut() == 1) != (!c.want && c.logging == service.Logging{Sample: 1 << 30}) {
			t.Errorf("%+v, %s: %d records, %d sampled out", c.logging, r.Outcome, len(got), s.SampledOut())
		}
	}
}

// Of any Service about the share is logged that it wants, also if its connections are every other one, and what is
// logged and what is left out are all.
func TestSampling(t *testing.T) {
	const all = 100_000
	for _, step := range []uint64{1, 2, 64, 100} {
		logged := 0
		s := NewSelection([]Event{End}, sinkFunc(func(Report) { logged++ }))
		for i := range uint64(all) {
			s.Observe(&record.Record{
				ID: i * step, Outcome: record.OutcomeOK, Logging: service.Logging{Sample: 100},
			})
		}
		if logged < 800 || logged > 1200 || uint64(logged)+s.SampledOut() != all {
			t.Errorf("every %d: %d logged, %d left out", step, logged, s.SampledOut())
		}
	}
}

func TestSampledLinesHaveAWeight(t *testing.T) {
	well, failed := sample(), broken()
	well.Attempts = well.Attempts[1:]
	well.Logging.Sample, failed.Logging.Sample = 100, 100
	for want, r := range map[string]*record.Record{`"sample":100}`: well, `"flags":""}`: failed, `"flags":""} `: sample()} {
		var l Line
		l.FillReport(ended(r))
		if text := string(AppendJSON(nil, &l)); !strings.Contains(text, strings.TrimSpace(want)) {
			t.Errorf("%s has no %s", text, want)
		}
	}
}

package splicetest

import (
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

func lastingHandOverScenarios() []scenario {
	return []scenario{
		{name: "HandOverOfRemoved", run: handOverOfRemoved, needs: Handover},
		{name: "HandOverOfAges", run: handOverOfAges, needs: Handover},
	}
}

// handOverOfRemoved: a successor ends the connections of a removed endpoint when the predecessor would have, also where
// it does not have the Service any more, and forgets that where it has the endpoint.
func handOverOfRemoved(t *trial) {
	const after = 1200 * time.Millisecond
	for _, c := range []struct {
		name            string
		noFront, isBack bool
	}{{name: "removed"}, {name: "no front", noFront: true}, {name: "back", isBack: true}} {
		t.sub(c.name, func(t *trial) {
			t.Parallel()
			at, accepted := wires(t)
			s := t.succeeds(splice.Options{Policy: service.Policy{}}, inet.TCP, at)
			s.noFront = c.noFront
			s.front.under(resetsAfter(after))
			if !c.noFront {
				s.toNext.under(resetsAfter(after))
			}
			w := connect(t, s.front, accepted)
			w.exchange()
			s.front.know()
			removed := time.Now()
			if !c.isBack {
				s.toNext.know()
			}
			time.Sleep(200 * time.Millisecond)
			s.taken(noChange)
			if c.isBack {
				s.next.noRecord(after)
				w.exchange()
				return
			}
			rec := s.firstRecord()
			took := time.Since(removed)
			if rec.Outcome != record.OutcomeEndpointRemoved || rec.CloseType != record.Reset || took < after {
				t.Errorf("after %s, record %+v", took, rec)
			}
		})
	}
}

// firstRecord waits for a record of either; of the predecessor's where the end was due before all was handed over, on a
// busy machine.
func (s *succession) firstRecord() *record.Record {
	s.Helper()
	select {
	case rec := <-s.old.records:
		return rec
	case rec := <-s.next.records:
		return rec
	case <-time.After(longest):
		s.Fatalf("no record came within %s", longest)
		return nil
	}
}

// handOverOfAges: a connection is as old for a successor as it was before, and closed where it is quiet.
func handOverOfAges(t *trial) {
	const age = time.Second
	at, accepted := wires(t)
	s := t.succeeds(splice.Options{Policy: service.Policy{MaxAge: service.Age{Time: age}}}, inet.TCP, at)
	w := connect(t, s.front, accepted)
	w.exchange()
	s.taken(noChange)
	rec := s.firstRecord()
	if rec.Outcome != record.OutcomeMaxAge || rec.Duration < age {
		t.Errorf("record %+v", rec)
	}
	w.ends()
}

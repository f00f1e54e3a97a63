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
	for _, name := range []string{"removed", "no front"} {
		t.sub(name, func(t *trial) {
			t.Parallel()
			s, w := t.removedSoon(after)
			w.exchange()
			s.front.know()
			removed := time.Now()
			if s.noFront = name == "no front"; !s.noFront {
				s.toNext.under(resetsAfter(after))
				s.toNext.know()
			}
			time.Sleep(200 * time.Millisecond)
			s.taken(noChange)
			rec := s.firstRecord()
			took := time.Since(removed)
			if rec.Outcome != record.OutcomeEndpointRemoved || rec.CloseType != record.Reset || took < after {
				t.Errorf("after %s, record %+v", took, rec)
			}
		})
	}
	t.sub("back", func(t *trial) {
		t.Parallel()
		for after := after; ; after *= 4 {
			s, w := t.removedSoon(after)
			w.exchange()
			s.toNext.under(resetsAfter(after))
			removed := time.Now()
			s.front.know()
			s.taken(noChange)
			if time.Since(removed) > after {
				continue // a busy machine: the predecessor may have ended it
			}
			s.next.noRecord(after)
			w.exchange()
			return
		}
	})
}

// removedSoon is a connection that is reset so long after its endpoint was removed, and is to be handed over.
func (t *trial) removedSoon(after time.Duration) (*succession, *wire) {
	t.Helper()
	at, accepted := wires(t)
	s := t.succeeds(splice.Options{Policy: service.Policy{}}, inet.TCP, at)
	s.front.under(resetsAfter(after))
	return s, connect(t, s.front, accepted)
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

package splicetest

import (
	"strings"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/payload"
	"github.com/portald/portald/proxy/splice"
)

func payloadHandOverScenarios() []scenario {
	return []scenario{{name: "PayloadAfterHandOver", run: payloadAfterHandOver, needs: Handover}}
}

// payloadAfterHandOver: a successor has only what it has carried itself, and says so; the predecessor has nothing left.
func payloadAfterHandOver(t *trial) {
	at, accepted := wires(t)
	s := t.succeeds(splice.Options{}, inet.TCP, at)
	for _, k := range []keeping{{s.old, s.front}, {s.next, s.toNext}} {
		k.want(service.KeepBadlyEnded)
	}
	w := connect(t, s.front, accepted)
	for range 3 {
		w.exchange()
	}
	if left := s.taken(noChange); left != 0 {
		t.Fatalf("%d connections are left", left)
	}
	if n := s.old.Stats().PayloadBytes; n != 0 {
		t.Errorf("the predecessor has %d bytes", n)
	}
	w.exchange()
	reset(w.endpoint)
	rec := s.next.record()
	all := s.next.Payload.Content().Entries
	if len(all) != 1 || all[0].Record != rec {
		t.Fatalf("%d connections are kept, after record %+v", len(all), rec)
	}
	for _, d := range []payload.Direction{all[0].FromClient, all[0].FromEndpoint} {
		if len(d.Parts) != 1 || d.Parts[0].Offset != 3 || string(d.Parts[0].Data) != "x" || d.Bytes != 4 ||
			!strings.HasPrefix(d.Lacks, "3 bytes were not seen") {
			t.Errorf("%+v", d)
		}
	}
	w.client.Close()
}

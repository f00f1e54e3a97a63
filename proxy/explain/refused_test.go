package explain

import (
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
)

// Packets that rules refused are said with the reason: now, before, or of a protocol that is not carried.
func TestRefusedPackets(t *testing.T) {
	refused := Lost{Packets: 3, Since: now, Until: now}
	const since = "3 packets of clients were refused since 01:46:40 UTC"
	for name, test := range map[string]struct {
		edit          func(*scene)
		line, verdict string
	}{
		"now": {func(s *scene) {
			s.Port.Endpoints = nil
			s.apply(portal.Reject{})
		}, "wrong " + since + ": no endpoint\n", "has no endpoint of IPv4. " + since + "."},
		"before": {func(*scene) {}, since + ", and none after 01:46:40 UTC: there was no endpoint\n", "get 2 of its 2"},
		"not served": {func(s *scene) {
			s.apply(portal.Reject{})
			s.Applied.Quarantine = "ports"
		}, "wrong " + since + ": it is not served\n", ""},
		"none": {func(s *scene) { s.Refused = Lost{} }, "", "get 2 of its 2"},
		"SCTP": {func(s *scene) {
			s.Port.Name.Protocol = inet.SCTP
			s.apply(portal.Reject{})
		}, "wrong " + since + ": it is not served\n", ""},
	} {
		s := newScene()
		s.Refused = refused
		test.edit(s)
		r := s.explain(t)
		if all := text(r); !strings.Contains(all, test.line) || test.line == "" && strings.Contains(all, "refused") {
			t.Errorf("%s: no %q in\n%s", name, test.line, all)
		}
		if !strings.Contains(r.Verdict.Text, test.verdict) {
			t.Errorf("%s: %s, want %s", name, r.Verdict.Text, test.verdict)
		}
	}
}

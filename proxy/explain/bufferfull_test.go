package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/portal/service"
)

// Datagrams that portald had no room for are in doubt while it goes on, and a fact later.
func TestBufferFull(t *testing.T) {
	const line = "12 datagrams lost from 01:46:40 to 01:46:41 UTC: a receive buffer of portald was full"
	for name, test := range map[string]struct {
		edit          func(*scene)
		line, verdict string
	}{
		"now":    {func(s *scene) { s.BufferFull.Lately = true }, "doubt " + line, "does not read as fast as they come"},
		"before": {func(*scene) {}, line, "get 2 of its 2"},
		"kernel": {func(s *scene) { s.BufferFull.Lately, s.Port.Mode = true, service.ModeKernel }, line, ""},
		"none":   {func(s *scene) { s.BufferFull = Lost{} }, "", "get 2 of its 2"},
	} {
		s := newScene()
		s.BufferFull = Lost{Packets: 12, Since: now, Until: now.Add(time.Second)}
		test.edit(s)
		r := s.explain(t)
		if all := text(r); !strings.Contains(all, test.line) || test.line == "" && strings.Contains(all, "receive buffer") {
			t.Errorf("%s: no %q in\n%s", name, test.line, all)
		}
		if !strings.Contains(r.Verdict.Text, test.verdict) {
			t.Errorf("%s: %s, want %s", name, r.Verdict.Text, test.verdict)
		}
	}
}

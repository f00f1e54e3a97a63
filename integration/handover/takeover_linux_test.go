package handover

import (
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// A second portald takes over from the first, which ends, and an open connection goes on.
func TestTakeOver(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	first := b.Start(b.Cart(0))
	c, r, a := b.Open(bed.HostPort(bed.IP4, 80))
	before := b.Rules()
	second := first.Succeed()
	if code := first.Exit(); code != 0 {
		t.Errorf("the first ended with code %d", code)
	}
	if err := bed.Echoes(c, r); err != nil {
		t.Errorf("the open connection: %v", err)
	}
	second.WaitReady()
	if after := b.Rules(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	_ = c.CloseWrite()
	if r := second.RecordOf(a); r.Outcome != "ok" || r.BytesFromEndpoint == 0 {
		t.Errorf("recorded as %s", r)
	}
	if log := second.Log.String(); !strings.Contains(log, "The rules of the predecessor stand") {
		t.Errorf("the second wrote rules:\n%s", log)
	}
}

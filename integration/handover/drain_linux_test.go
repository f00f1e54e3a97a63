package handover

import (
	"strings"
	"syscall"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// A portald that is told to end, as by the deletion of its pod, hands over what is left to one that starts while it
// drains, and ends at once.
func TestTakeOverFromDraining(t *testing.T) {
	for _, atExit := range []string{"kernel", "remove"} {
		t.Run(atExit, func(t *testing.T) {
			b := bed.New(t)
			b.ServePods(0)
			first := b.Start(b.Cart(0), "--on-exit="+atExit)
			c, r, a := b.Open(bed.HostPort(bed.IP4, 80))
			first.Signal(syscall.SIGTERM)
			b.Eventually("the drain", func() bool { return strings.Contains(first.Log.String(), "Draining") })
			second := first.Succeed()
			if code := first.Exit(); code != 0 {
				t.Errorf("the first ended with code %d", code)
			}
			second.WaitReady()
			if err := bed.Echoes(c, r); err != nil {
				t.Errorf("the open connection: %v", err)
			}
			if a, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80)); err != nil || a.Pod != "pod0" {
				t.Errorf("a new connection: %v, %v", a, err)
			}
			_ = c.CloseWrite()
			if r := second.RecordOf(a); r.Outcome != "ok" || r.BytesFromEndpoint == 0 {
				t.Errorf("recorded as %s", r)
			}
		})
	}
}

package handover

import (
	"strings"
	"syscall"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// In a pod the first waits to be told to end. When the second has crashed it ends, so that it is started again.
func TestSuccessorCrashes(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	manifest := b.WriteManifest(bed.Manifest, b.Cart(0))
	first := b.Launch([]string{"env", "KUBERNETES_SERVICE_HOST=192.0.2.1"}, "--manifests", manifest)
	first.WaitReady()
	second := first.Succeed()
	b.Eventually("the first to rest", func() bool { return strings.Contains(first.Log.String(), "Hand-over done") })
	second.WaitReady()
	rules := b.Rules()
	second.Signal(syscall.SIGKILL)
	if code := second.Exit(); code != -1 {
		t.Errorf("the second ended with code %d", code)
	}
	if code := first.Exit(); code != 0 {
		t.Errorf("the first ended with code %d", code)
	}
	if log := first.Log.String(); !strings.Contains(log, "no other portald serves this node") {
		t.Errorf("the first does not say why it ends:\n%s", log)
	}
	if after := b.Rules(); after != rules {
		t.Errorf("before the crash:\n%s\nafter it:\n%s", rules, after)
	}
}

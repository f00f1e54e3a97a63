package daemon

import (
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// Event loops wait where only the runtime's signals reach them.
func TestRuntimeThatCannotInterrupt(t *testing.T) {
	b := bed.New(t, "env")
	b.WriteManifest(bed.Manifest, b.Cart(0))
	for _, value := range []string{"asyncpreemptoff=1", "gctrace=0,asyncpreemptoff=1"} {
		_, err := b.Try(b.Node, "env", "GODEBUG="+value, bed.Portald, "--manifests", b.Dir+"/"+bed.Manifest)
		if err == nil || strings.Count(err.Error(), "portald: environment GODEBUG="+value) != 1 {
			t.Errorf("GODEBUG=%s: %v", value, err)
		}
	}
	b.On(b.Node, "env", "GODEBUG=asyncpreemptoff=1", bed.Portald, "cleanup") // which has no loops
}

// There are as many event loops as CPUs that the daemon may use, not as the host has.
func TestLoopsFollowTheRuntime(t *testing.T) {
	b := bed.New(t, "env")
	b.ServePods(0)
	b.WriteManifest(bed.Manifest, b.Cart(0))
	d := b.Launch([]string{"env", "GOMAXPROCS=1"}, "--manifests", b.Dir+"/"+bed.Manifest)
	d.WaitReady()
	if !strings.Contains(d.Log.String(), `msg="1 event loops`) {
		t.Errorf("portald says\n%s", d.Log)
	}
	for range 10 {
		if _, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80)); err != nil {
			t.Error(err)
		}
	}
}

// The engine of goroutines carries Services as the event loops do.
func TestEngineOfGoroutines(t *testing.T) {
	b := bed.New(t, "env")
	b.ServePods(0)
	b.WriteManifest(bed.Manifest, b.Cart(0))
	d := b.Launch(nil, "--manifests", b.Dir+"/"+bed.Manifest, "--engine", "goroutine")
	d.WaitReady()
	if strings.Contains(d.Log.String(), "event loops") {
		t.Errorf("portald says\n%s", d.Log)
	}
	for range 10 {
		if _, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80)); err != nil {
			t.Error(err)
		}
	}
}

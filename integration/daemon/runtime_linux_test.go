package daemon

import (
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// portald rejects a runtime without asynchronous preemption: event loops block in epoll_wait, where only a signal of
// the runtime can interrupt them.
func TestRuntimeThatCannotInterrupt(t *testing.T) {
	b := bed.New(t, "env")
	b.WriteManifest(bed.Manifest, b.Cart(0))
	for _, value := range []string{"asyncpreemptoff=1", "gctrace=0,asyncpreemptoff=1"} {
		_, err := b.Try(b.Node, "env", "GODEBUG="+value, bed.Portald, "--manifests", b.Dir+"/"+bed.Manifest)
		if err == nil || strings.Count(err.Error(), "portald: environment GODEBUG="+value) != 1 {
			t.Errorf("GODEBUG=%s: %v", value, err)
		}
	}
	b.On(b.Node, "env", "GODEBUG=asyncpreemptoff=1", bed.Portald, "cleanup") // runs no event loops
}

// The number of event loops follows GOMAXPROCS, not the number of CPUs of the host.
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

// The goroutine engine serves a Service, without event loops.
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

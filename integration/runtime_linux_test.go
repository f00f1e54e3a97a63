package integration

import (
	"strings"
	"testing"
)

// Event loops wait where only the runtime's signals reach them.
func TestRuntimeThatCannotInterrupt(t *testing.T) {
	b := newBed(t, "env")
	b.write(manifest, b.cart(0))
	for _, value := range []string{"asyncpreemptoff=1", "gctrace=0,asyncpreemptoff=1"} {
		_, err := b.try(b.node, "env", "GODEBUG="+value, portald, "--manifests", b.dir+"/"+manifest)
		if err == nil || strings.Count(err.Error(), "portald: environment GODEBUG="+value) != 1 {
			t.Errorf("GODEBUG=%s: %v", value, err)
		}
	}
	b.on(b.node, "env", "GODEBUG=asyncpreemptoff=1", portald, "cleanup") // which has no loops
}

// There are as many event loops as CPUs that the daemon may use, not as the host has.
func TestLoopsFollowTheRuntime(t *testing.T) {
	b := newBed(t, "env")
	b.servePods(0)
	b.write(manifest, b.cart(0))
	d := b.launch([]string{"env", "GOMAXPROCS=1"}, "--manifests", b.dir+"/"+manifest)
	d.waitReady()
	if !strings.Contains(d.log.String(), `msg="1 event loops`) {
		t.Errorf("portald says\n%s", d.log)
	}
	for range 10 {
		if _, err := who(b.client, "tcp", at(ip4, 80)); err != nil {
			t.Error(err)
		}
	}
}

package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/portald/portald/integration/topology"
)

// patience is how long the control plane may take to do something, on a machine that does much else.
const patience = 30 * time.Second

// Require skips the test, naming what is missing, unless networks can be made here, the commands are in PATH and
// there is a control plane to run. Under REQUIRE_ALL=1 the test fails instead.
func Require(t topology.TB, commands ...string) {
	t.Helper()
	topology.Require(t, commands...)
	if _, err := kubetest(); err != nil {
		topology.Lack(t, "needs a control plane: %v", err)
	}
}

// New runs a control plane on a host until the test ends.
func New(t testing.TB, host *topology.Host, flags ...string) *Cluster {
	t.Helper()
	Require(t)
	// The test's own context ends before its cleanups, which may need the API server.
	c, err := Start(context.Background(), Options{Host: host, Dir: t.TempDir(), Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// eventually waits for something of the control plane.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

package inspect

import (
	"net/netip"
	"testing"

	"github.com/portald/portald/proxy/explain"
)

// Probes are a table, with - for what was not tried or is not known, and nothing in it that a terminal obeys.
func TestProbesPrinted(t *testing.T) {
	rows := []explain.Probe{
		{Endpoint: netip.MustParseAddrPort("10.244.0.2:8080"), Pod: "shop/pod0", Connect: "accepted", Host: "up",
			TookMS: 0.21, Status: explain.Good, Verdict: "accepts"},
		{Endpoint: netip.MustParseAddrPort("10.244.0.3:53"), Status: explain.Doubt, Verdict: "no route\x1b[2J"},
	}
	const want = "ENDPOINT          POD         CONNECT    HOST   TIME    VERDICT\n" +
		"10.244.0.2:8080   shop/pod0   accepted   up     0.2ms   accepts\n" +
		"10.244.0.3:53     -           -          -      -       no route\\x1b[2J\n"
	if got := string(sheet{}.probes(nil, rows)); got != want {
		t.Errorf("it prints\n%s, want\n%s", got, want)
	}
	if got := (sheet{}).probes(nil, nil); len(got) > 0 {
		t.Errorf("without probes: %q", got)
	}
}

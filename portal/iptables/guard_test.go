package iptables

import (
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/portaltest"
)

func TestPortRanges(t *testing.T) {
	g := &guarded{}
	for _, port := range []uint16{0, 1, 62, 63, 64, 65, 127, 128, 200, 255, 65535} {
		g.set(inet.TCP, port, true)
	}
	g.set(inet.TCP, 1, false)
	for first, want := range map[int]string{0: "0 62:65 127:128 200 255", 256: "", 65280: "65535"} {
		if got := written(g.tcp.ranges(first, leafPorts)); got != want {
			t.Errorf("from %d: %s, want %s", first, got, want)
		}
	}
	for port := range uint16(leafPorts) {
		g.set(inet.UDP, port, true)
	}
	if got := written(g.udp.ranges(0, leafPorts)); got != "0:255" {
		t.Errorf("all: %s", got)
	}
}

func written(ranges []inet.PortRange) string {
	var all []string
	for _, r := range ranges {
		all = append(all, dports(r))
	}
	return strings.Join(all, " ")
}

// Ten thousand neighbours are a rule. With as many gaps as there can be, a packet walks some two hundred rules.
func TestGuardRulesWalked(t *testing.T) {
	r := newHostOf(t).filter.renderer
	for step, most := range map[int]int{1: 1, 2: 220} {
		g := &guarded{}
		for n := range 10_000 {
			g.set(inet.TCP, uint16(portaltest.FirstPort+n*step), true)
		}
		chains := r.guardChains(g)
		longest := 0
		for name, c := range chains {
			if strings.HasPrefix(name, "PORTALD-PP-") {
				longest = max(longest, count(c.rules))
			}
		}
		if walked := count(chains[r.proxyPorts].rules) + longest; walked > most {
			t.Errorf("10,000 ports, every %d: %d rules walked, want at most %d", step, walked, most)
		}
	}
}

func newHostOf(t *testing.T) *host { return newWriter(t, testOptions(newFake().run, "")).hosts[0] }

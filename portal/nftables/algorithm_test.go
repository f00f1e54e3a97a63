package nftables

import (
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/layout"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
)

// A change from one algorithm with a chain to another writes the chains of that service port, and nothing else.
func TestAlgorithmChangesOneServicePort(t *testing.T) {
	o := testOptions()
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	r, err := o.rules(nft.IPv4())
	if err != nil {
		t.Fatal(err)
	}
	all := algorithms()
	s, _ := build(r, all, nil)
	owner := service.PortName{Namespace: "shop", Name: service.RoundRobin.String(), Port: "a", Protocol: inet.TCP}
	var changes []portal.Change
	pool := pools(inet.IPv4)[0]
	pool.Algorithm = service.SourceHash
	for _, p := range all {
		if p.Owner == owner && r.Family.Owns(p.Frontend.Addr.Addr()) {
			p.Target = portal.Spread{Pool: pool}
			changes = append(changes, portal.Change{Frontend: p.Frontend, Portal: &p})
		}
	}
	c := s.change(changes)
	elements := len(c.add) + len(c.replace) + len(c.remove) + len(c.retire)
	others := len(c.createSets) + len(c.dropSets) + len(c.dropChains) + len(c.trimChains)
	if len(c.writeChains) == 0 || elements+others > 0 {
		t.Errorf("%+v", c)
	}
	for _, chain := range c.writeChains {
		if !strings.HasSuffix(chain.Name, layout.Readable(owner)) {
			t.Errorf("chain %s is written for a change of %s", chain.Name, owner)
		}
	}
}

// Every way to choose among n covers all of them: the last rule takes what is left, and others match less than all.
func TestTurn(t *testing.T) {
	f := nft.IPv4()
	for a, want := range map[service.Algorithm]string{
		service.AlgorithmDefault: "numgen random mod 3 == 0; numgen random mod 2 == 0; ",
		service.Random:           "numgen random mod 3 == 0; numgen random mod 2 == 0; ",
		service.RoundRobin:       "numgen inc mod 3 == 0; numgen inc mod 2 == 0; ",
		service.SourceHash:       "jhash ip saddr mod 3 seed 0x70727464 == 0; jhash ip saddr mod 3 seed 0x70727464 == 1; ",
	} {
		var texts []string
		for i := range 3 {
			texts = append(texts, layout.Turn(f, a, i, 3).Text(f))
		}
		if got := strings.Join(texts, "; "); got != want {
			t.Errorf("%q: %s", a, got)
		}
	}
}

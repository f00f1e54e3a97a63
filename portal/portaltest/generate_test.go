package portaltest

import (
	"math/rand/v2"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// Generated states keep the dataplane's promise: portals of an owner in one family share a pool, and changes lead from
// one state to the next.
func TestStatesAreTrue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	state, told := State{}, State{}
	spreads, shared := 0, 0
	for range 300 {
		for _, c := range state.ChangeSpread(random, 1+random.IntN(8)) {
			delete(told, c.Frontend)
			if c.Portal != nil {
				told[c.Frontend] = *c.Portal
			}
		}
		n, more := poolsAreShared(t, state.Portals())
		spreads, shared = spreads+n, shared+more
		if len(told) != len(state) {
			t.Fatalf("told of %d portals, %d are held", len(told), len(state))
		}
		for f, p := range state {
			if told[f] != p {
				t.Fatalf("held %v, told %v", p, told[f])
			}
		}
	}
	if shared == 0 || spreads == shared {
		t.Errorf("%d portals spread, %d by a pool that another has: want some", spreads, shared)
	}
	if _, shared := poolsAreShared(t, SpreadPortals(random, 200)); shared == 0 {
		t.Error("no two of 200 portals share a pool")
	}
}

// poolsAreShared counts the portals that spread, and those that are not the first of their pool.
func poolsAreShared(t *testing.T, portals []portal.Portal) (spreads, shared int) {
	t.Helper()
	type key struct {
		owner  service.PortName
		family inet.Family
	}
	pools := map[key]*portal.Pool{}
	for _, p := range portals {
		to, ok := p.Target.(portal.Spread)
		if !ok {
			continue
		}
		k := key{p.Owner, familyOf(p)}
		spreads++
		if pools[k] == nil {
			pools[k] = to.Pool
			continue
		}
		if shared++; pools[k] != to.Pool {
			t.Fatalf("%s has two pools", p.Owner)
		}
	}
	return spreads, shared
}

// Package portaltest has the test suites that Writers pass, Run for every portal.Writer and Spreading for those of
// portal.Spread, and Fake, a Writer in memory for tests of the code above Writers.
//
//	portaltest.Run(t, true, func(t *testing.T) portaltest.Subject {
//		return portaltest.Subject{Host: host, NewWriter: func() (portal.Writer, error) { return nftables.New(o) }}
//	})
package portaltest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// The proxy ports of the suite's portals.
const (
	FirstPort = 20000
	LastPort  = 29999
	ProxyPort = FirstPort + 1 // of a Site's daemon
)

// ProxyRange returns the ports from FirstPort to LastPort, the ProxyPorts of a Writer under test.
func ProxyRange() inet.PortRange { return inet.PortRange{First: FirstPort, Last: LastPort} }

// Host is where the writers under test write.
type Host interface {
	// Dump returns all that the host holds as text, the same text for the same state: no counters, no time.
	Dump(ctx context.Context) (string, error)
	// AddForeign adds rules of another program, in the places where a writer puts its own.
	AddForeign(ctx context.Context) error
	// Damage deletes the rules or elements of a frontend, and nothing else.
	Damage(ctx context.Context, f service.Frontend) error
	// Unhook deletes a jump to the writer's rules.
	Unhook(ctx context.Context) error
}

// Subject is a host of its own and a way to make writers for it. Each call makes another one, as a daemon that starts
// again does.
type Subject struct {
	Host      Host
	NewWriter func() (portal.Writer, error)
	// Written tells how often anything was written to the host, also where that changed nothing.
	Written func() (int, error)
}

// Run runs the suite, with or without portals that spread; open is called once a test.
func Run(t *testing.T, spread bool, open func(t *testing.T) Subject) {
	type test struct {
		name string
		run  func(*trial)
	}
	all := []test{
		{"ReplaceIsTheWholeState", replaceIsTheWholeState},
		{"UpdatesEndAsReplaceDoes", updatesEndAsReplaceDoes},
		{"CleanupLeavesNoTrace", cleanupLeavesNoTrace},
		{"LeftoversAreRemoved", leftoversAreRemoved},
		{"ForeignRulesStay", foreignRulesStay},
		{"AuditFindsDamage", auditFindsDamage},
		{"AdoptWritesNothing", adoptWritesNothing},
		{"AdoptFindsDifferences", adoptFindsDifferences},
		{"ShowReadsTheHost", showReadsTheHost},
		{"TargetsChange", targetsChange},
		{"ThousandPortals", thousandPortals},
		{"GuardsAreRemoved", guardsAreRemoved},
	}
	if spread {
		all = append(all, test{"PoolsChange", poolsChange})
	}
	for _, test := range all {
		t.Run(test.name, func(t *testing.T) { test.run(&trial{t, open(t), spread, ProxyPorts(rand.New(rand.NewPCG(0, 0)))}) })
	}
}

func replaceIsTheWholeState(t *trial) {
	random := rand.New(rand.NewPCG(1, 1))
	portals := t.portals(random, 60)
	w := t.writer()
	t.must(w.Replace(t.Context(), portals))
	t.must(t.audit(w))
	once := t.dump()
	random.Shuffle(len(portals), func(i, j int) { portals[i], portals[j] = portals[j], portals[i] })
	t.must(w.Replace(t.Context(), portals))
	t.same("the same again in another order", once, t.dump())
	t.must(w.Replace(t.Context(), portals[:20]))
	t.must(t.audit(w))
	fewer := t.dump()
	t.same("fewer portals", t.fresh(portals[:20]), fewer)
	if once == fewer {
		t.Fatal("the host looks alike with 60 portals and with 20")
	}
}

func updatesEndAsReplaceDoes(t *trial) {
	random := rand.New(rand.NewPCG(2, 2))
	w := t.writer()
	state := State{}
	t.must(w.Replace(t.Context(), nil))
	for range 20 {
		w.Guard(ChangePorts(random, t.open, random.IntN(5)))
		t.must(w.Update(t.Context(), t.change(state, random, 1+random.IntN(12))))
		t.must(t.audit(w))
	}
	updated := t.dump()
	t.same("after 20 updates", t.fresh(state.Portals()), updated)
}

func cleanupLeavesNoTrace(t *trial) {
	w := t.writer()
	before := t.clean()
	t.must(w.Replace(t.Context(), t.portals(rand.New(rand.NewPCG(3, 3)), 60)))
	if t.dump() == before {
		t.Fatal("60 portals left no mark on the host")
	}
	t.cleanup(w)
	t.same("after Cleanup", before, t.dump())
	t.cleanup(t.writer())
	t.same("after another Cleanup", before, t.dump())
}

func leftoversAreRemoved(t *trial) {
	portals := t.portals(rand.New(rand.NewPCG(4, 4)), 120)
	clean := t.clean()
	t.must(t.writer().Replace(t.Context(), portals[:100]))
	w := t.writer()
	t.must(w.Replace(t.Context(), portals[90:]))
	t.must(t.audit(w))
	t.must(w.Replace(t.Context(), portals[90:])) // rules for flows of the earlier run stay until then
	t.must(t.audit(w))
	after := t.dump()
	t.same("after another daemon's portals", t.fresh(portals[90:]), after)
	t.cleanup(t.writer())
	t.same("after Cleanup by another daemon", clean, t.dump())
}

func foreignRulesStay(t *trial) {
	random := rand.New(rand.NewPCG(5, 5))
	w := t.writer()
	t.clean()
	t.must(t.Host.AddForeign(t.Context()))
	before := t.dump()
	state := State{}
	t.must(w.Replace(t.Context(), nil))
	t.must(w.Update(t.Context(), t.change(state, random, 40)))
	t.must(w.Replace(t.Context(), state.Portals()))
	t.must(t.audit(w))
	t.cleanup(w)
	t.same("the rules of others", before, t.dump())
}

func auditFindsDamage(t *trial) {
	portals := t.portals(rand.New(rand.NewPCG(6, 6)), 40)
	w := t.writer()
	t.must(w.Replace(t.Context(), portals))
	whole := t.dump()
	damage := map[string]func() error{"the hook": func() error { return t.Host.Unhook(t.Context()) }}
	for _, p := range portals { // one of each target is enough
		damage[fmt.Sprintf("what leads to %T", p.Target)] = func() error { return t.Host.Damage(t.Context(), p.Frontend) }
	}
	for what, inflict := range damage {
		t.must(inflict())
		if err := w.Audit(t.Context()); err == nil {
			t.Errorf("the audit misses %s", what)
		} else {
			t.Logf("without %s: %v", what, err)
		}
		t.must(w.Replace(t.Context(), portals))
		t.must(w.Audit(t.Context()))
		t.same("repaired after the loss of "+what, whole, t.dump())
	}
}

// guardsAreRemoved: the guard of a proxy port is removed when the port is closed, by Update and by Replace, and not
// before.
func guardsAreRemoved(t *trial) {
	open := t.open
	t.open = nil
	w := t.writer()
	t.must(w.Replace(t.Context(), nil))
	without := t.dump()
	w.Guard(open)
	t.must(w.Update(t.Context(), nil))
	t.must(t.audit(w))
	guarded := t.dump()
	if guarded == without {
		t.Fatal("open proxy ports left no mark on the host")
	}
	t.must(w.Replace(t.Context(), nil))
	t.same("guarded by Replace", guarded, t.dump())
	closed := map[portal.ProxyPort]bool{}
	for p := range open {
		closed[p] = false
	}
	w.Guard(closed)
	t.must(w.Update(t.Context(), nil))
	t.must(t.audit(w))
	t.same("all closed", without, t.dump())
}

func thousandPortals(t *trial) {
	random := rand.New(rand.NewPCG(8, 8))
	portals := t.portals(random, 1000)
	w := t.writer()
	t.must(w.Replace(t.Context(), portals))
	t.must(t.audit(w))
	before := t.dump()
	redirects := func(p portal.Portal) bool { return p.Frontend.Protocol != inet.SCTP }
	changed := portals[500+slices.IndexFunc(portals[500:], redirects)]
	changed.Target = portal.Redirect{Port: LastPort}
	t.must(w.Update(t.Context(), []portal.Change{{Frontend: changed.Frontend, Portal: &changed}}))
	t.must(t.audit(w))
	if t.dump() == before {
		t.Error("a changed target changed nothing")
	}
}

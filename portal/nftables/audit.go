package nftables

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/portald/portald/portal/nftables/layout"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/writer"
)

// audit compares what the kernel has with what was written, except the clients in affinity sets.
func (t *table) audit() error {
	if err := t.kernel.inForce(); err != nil {
		return err
	}
	var drift writer.Drift
	for _, compare := range []func(*writer.Drift) error{t.auditChains, t.auditSets} {
		if err := compare(&drift); err != nil {
			return err
		}
	}
	return drift.Err()
}

func (t *table) auditChains(drift *writer.Drift) error {
	listed, err := t.kernel.listChains()
	if err != nil {
		return err
	}
	compareChains(drift, t.chains, listed, func(is, written nft.ListedRule) bool { return is == written })
	return nil
}

// compareChains adds how listed chains differ from those that should be there; same compares their rules.
func compareChains(
	drift *writer.Drift, wanted, listed map[string]*nft.ListedChain, same func(is, wanted nft.ListedRule) bool,
) {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		is, exists := listed[name]
		switch want := wanted[name]; {
		case !exists:
			drift.Add("chain %s is missing", name)
		case !is.Accepts:
			drift.Add("the policy of chain %s is not accept", name)
		case !sameHook(is.Hook, want.Hook):
			drift.Add("packets enter chain %s elsewhere", name)
		case !slices.EqualFunc(is.Rules, want.Rules, same):
			drift.Add("the rules of chain %s were changed", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if wanted[name] == nil {
			drift.Add("chain %s is not ours", name)
		}
	}
}

func sameHook(a, b *nft.Hook) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// compareEvery is how often elements are compared one by one although their number is right: the kernel lists a hundred
// thousand in a second.
const compareEvery = 10 * time.Minute

func (t *table) auditSets(drift *writer.Drift) error {
	listed, err := t.kernel.listSets()
	if err != nil {
		return err
	}
	due := time.Since(t.compared) >= compareEvery
	var doubtful []*nft.Set
	for _, s := range t.state.portalSets() {
		is, exists := listed[s.Name]
		if !exists {
			drift.Add("set %s is missing", s.Name)
		} else if due || is.Count != t.state.sizes[s] {
			doubtful = append(doubtful, s)
		}
		delete(listed, s.Name)
	}
	for id := range t.state.shared.Counts() {
		if id, ok := id.(layout.ClientsID); ok {
			delete(listed, id.Name())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		drift.Add("set %s is not ours", name)
	}
	if err := t.auditElements(doubtful, drift); err != nil || !due {
		return err
	}
	t.compared = time.Now()
	return nil
}

func (t *table) auditElements(sets []*nft.Set, drift *writer.Drift) error {
	if len(sets) == 0 {
		return nil
	}
	wanted := t.state.elements()
	for _, s := range sets {
		err := t.kernel.listElements(s, func(listed nft.SetElement) {
			v, ok := wanted[listed.Entry]
			if is := s.ElementText(listed.Element, listed.Value); !ok {
				drift.Add("set %s has %s, which is not ours", s.Name, is)
			} else if v != listed.Value {
				drift.Add("set %s has %s in place of %s", s.Name, is, s.ElementText(listed.Element, v))
			}
			delete(wanted, listed.Entry)
		})
		if err != nil {
			return err
		}
	}
	var lacking []string
	for e, v := range wanted {
		if slices.Contains(sets, e.Set) {
			lacking = append(lacking, fmt.Sprintf("set %s lacks %s", e.Set.Name, e.Set.ElementText(e.Element, v)))
		}
	}
	for _, text := range slices.Sorted(slices.Values(lacking)) {
		drift.Add("%s", text)
	}
	return nil
}

package nftables

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/portald/portald/portal/writer"
)

// audit compares what the kernel has with what was written, except the clients in affinity sets.
func (t *table) audit() error {
	if err := t.inForce(); err != nil {
		return err
	}
	var found writer.Drift
	for _, compare := range []func(*writer.Drift) error{t.auditChains, t.auditSets} {
		if err := compare(&found); err != nil {
			return err
		}
	}
	return found.Err()
}

// inForce returns an error unless the table exists with its hooks on.
func (t *table) inForce() error {
	exists, dormant, err := t.exists()
	switch {
	case err != nil:
		return err
	case !exists:
		return errors.New("the table is missing")
	case dormant:
		return errors.New("the table is dormant")
	}
	return nil
}

func (t *table) auditChains(found *writer.Drift) error {
	listed, err := t.listChains()
	if err != nil {
		return err
	}
	compareChains(found, t.chains, listed, func(is, written listedRule) bool { return is == written })
	return nil
}

// compareChains adds how listed chains differ from those that should be there; same compares their rules.
func compareChains(
	found *writer.Drift, wanted, listed map[string]*listedChain, same func(is, wanted listedRule) bool,
) {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		is, exists := listed[name]
		switch want := wanted[name]; {
		case !exists:
			found.Add("chain %s is missing", name)
		case !is.accepts:
			found.Add("the policy of chain %s is not accept", name)
		case !sameHook(is.hook, want.hook):
			found.Add("packets enter chain %s elsewhere", name)
		case !slices.EqualFunc(is.rules, want.rules, same):
			found.Add("the rules of chain %s were changed", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if wanted[name] == nil {
			found.Add("chain %s is not ours", name)
		}
	}
}

func sameHook(a, b *hook) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

// compareEvery is how often elements are compared one by one although their number is right: the kernel lists a hundred
// thousand in a second.
const compareEvery = 10 * time.Minute

func (t *table) auditSets(found *writer.Drift) error {
	listed, err := t.listSets()
	if err != nil {
		return err
	}
	due := time.Since(t.compared) >= compareEvery
	var doubtful []*set
	for _, s := range t.state.portalSets() {
		is, exists := listed[s.name]
		if !exists {
			found.Add("set %s is missing", s.name)
		} else if due || is.count != t.state.sizes[s] {
			doubtful = append(doubtful, s)
		}
		delete(listed, s.name)
	}
	for id := range t.state.shared.Counts() {
		if id, ok := id.(clientsID); ok {
			delete(listed, id.name())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		found.Add("set %s is not ours", name)
	}
	if err := t.auditElements(doubtful, found); err != nil || !due {
		return err
	}
	t.compared = time.Now()
	return nil
}

func (t *table) auditElements(sets []*set, found *writer.Drift) error {
	if len(sets) == 0 {
		return nil
	}
	wanted := t.state.elements()
	for _, s := range sets {
		err := t.listElements(s, func(listed setElement) {
			v, ok := wanted[listed.entry]
			if is := s.elementText(listed.element, listed.value); !ok {
				found.Add("set %s has %s, which is not ours", s.name, is)
			} else if v != listed.value {
				found.Add("set %s has %s in place of %s", s.name, is, s.elementText(listed.element, v))
			}
			delete(wanted, listed.entry)
		})
		if err != nil {
			return err
		}
	}
	var lacking []string
	for e, v := range wanted {
		if slices.Contains(sets, e.set) {
			lacking = append(lacking, fmt.Sprintf("set %s lacks %s", e.set.name, e.set.elementText(e.element, v)))
		}
	}
	for _, text := range slices.Sorted(slices.Values(lacking)) {
		found.Add("%s", text)
	}
	return nil
}

package nftables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/portald/portald/portal"
)

// audit looks at everything. The clients that sets remember are the kernel's.
func (t *table) audit(context.Context) error {
	there, dormant, err := t.there()
	switch {
	case err != nil:
		return err
	case !there:
		return errors.New("the table is missing")
	case dormant:
		return errors.New("the table is switched off")
	}
	var found portal.Findings
	for _, look := range []func(*portal.Findings) error{t.auditChains, t.auditSets} {
		if err := look(&found); err != nil {
			return err
		}
	}
	return found.Err()
}

func (t *table) auditChains(found *portal.Findings) error {
	held, err := t.heldChains()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(t.chains)) {
		is, there := held[name]
		switch was := t.chains[name]; {
		case !there:
			found.Add("chain %s is missing", name)
		case !is.accepts:
			found.Add("chain %s denies by default", name)
		case !slices.Equal(is.rules, was.rules):
			found.Add("the rules of chain %s are not those that were written", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		if t.chains[name] == nil {
			found.Add("chain %s is not ours", name)
		}
	}
	return nil
}

// lookEvery is how often elements are compared one by one where their number is right: a hundred thousand take the kernel a
// second.
const lookEvery = 10 * time.Minute

func (t *table) auditSets(found *portal.Findings) error {
	held, err := t.heldSets()
	if err != nil {
		return err
	}
	due := time.Since(t.looked) >= lookEvery
	var doubtful []*set
	for _, s := range t.state.filled() {
		is, there := held[s.name]
		if !there {
			found.Add("set %s is missing", s.name)
		} else if due || is.count != t.state.sizes[s] {
			doubtful = append(doubtful, s)
		}
		delete(held, s.name)
	}
	for need := range t.state.needs.count {
		if id, ok := need.(clientsID); ok {
			delete(held, id.set().name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		found.Add("set %s is not ours", name)
	}
	if err := t.auditElements(doubtful, found); err != nil || !due {
		return err
	}
	t.looked = time.Now()
	return nil
}

func (t *table) auditElements(of []*set, found *portal.Findings) error {
	if len(of) == 0 {
		return nil
	}
	wanted := t.state.elements()
	for _, s := range of {
		err := t.heldElements(s, func(held filled) {
			v, ok := wanted[held.entry]
			if !ok {
				found.Add("set %s has %s, which is not ours", s.name, s.elementText(held.element, held.value))
			} else if v != held.value {
				found.Add("set %s has %s in place of %s", s.name, s.elementText(held.element, held.value), s.elementText(held.element, v))
			}
			delete(wanted, held.entry)
		})
		if err != nil {
			return err
		}
	}
	var lacking []string
	for missing, v := range wanted {
		if slices.Contains(of, missing.set) {
			lacking = append(lacking, fmt.Sprintf("set %s lacks %s", missing.set.name, missing.set.elementText(missing.element, v)))
		}
	}
	for _, text := range slices.Sorted(slices.Values(lacking)) {
		found.Add("%s", text)
	}
	return nil
}

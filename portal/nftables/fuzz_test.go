package nftables

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/portaltest"
)

// host is a table in memory, as strict as the kernel: what is replaced or removed must exist.
type host struct {
	sets   map[string]map[string]string // elements as text, with where they lead
	chains map[string]string
}

func newHost() *host { return &host{map[string]map[string]string{}, map[string]string{}} }

func (h *host) apply(c *changeset, f nft.Family) error {
	for _, s := range c.createSets {
		if h.sets[s.Name] != nil {
			return fmt.Errorf("set %s exists", s.Name)
		}
		h.sets[s.Name] = map[string]string{}
	}
	h.write(c.writeChains, f)
	for _, change := range []struct {
		what   string
		all    []nft.SetElement
		exists bool
	}{{"add", c.add, false}, {"replace", c.replace, true}, {"remove", c.remove, true}, {"remove", c.retire, true}} {
		for _, x := range change.all {
			set, key := h.sets[x.Set.Name], fmt.Sprint(x.Element)
			if _, there := set[key]; set == nil || there != change.exists {
				return fmt.Errorf("%s %s in set %s, which exists: %t, and has it: %t", change.what, key, x.Set.Name,
					set != nil, there)
			}
			if set[key] = fmt.Sprint(x.Value); change.what == "remove" {
				delete(set, key)
			}
		}
	}
	h.write(c.trimChains, f)
	for _, name := range c.dropChains {
		if _, there := h.chains[name]; !there {
			return fmt.Errorf("chain %s does not exist", name)
		}
		delete(h.chains, name)
	}
	for _, s := range c.dropSets {
		if len(h.sets[s.Name]) > 0 {
			return fmt.Errorf("set %s is dropped with elements in it", s.Name)
		}
		delete(h.sets, s.Name)
	}
	return nil
}

func (h *host) write(chains []nft.Chain, f nft.Family) {
	for _, c := range chains {
		var text bytes.Buffer
		c.Text(&text, f)
		h.chains[c.Name] = text.String()
	}
}

// FuzzEquivalence: any sequence of Updates ends in the same host state as one Replace of the last state.
func FuzzEquivalence(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(5))
	f.Add(uint64(7), uint8(40), uint8(1))
	f.Add(uint64(7), uint8(40), uint8(89)) // ports that open and close within one Guard
	o := testOptions()
	if err := o.complete(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps, size uint8) {
		for _, family := range []nft.Family{nft.IPv4(), nft.IPv6()} {
			r, err := o.rules(family)
			if err != nil {
				t.Fatal(err)
			}
			r.Configure(o.Settings, o.ServiceCIDRs)
			random, state, open := rand.New(rand.NewPCG(seed, 0)), portaltest.State{}, map[portal.ProxyPort]bool{}
			updated, replaced := newHost(), newHost()
			initial, all := build(r, nil, nil)
			table := &table{rules: r, state: initial, open: map[portal.ProxyPort]bool{}}
			if err := updated.apply(all, family); err != nil {
				t.Fatal(err)
			}
			for range steps % 50 {
				changes := slices.DeleteFunc(state.ChangeSpread(random, 1+int(size%20)), func(c portal.Change) bool {
					return !r.Family.Owns(c.Frontend.Addr.Addr())
				})
				table.guard(portaltest.ChangePorts(random, open, int(size%7)))
				if err := updated.apply(initial.change(changes), family); err != nil {
					t.Fatal(err)
				}
			}
			_, last := build(r, state.Portals(), open)
			if err := replaced.apply(last, family); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(replaced.sets, updated.sets); diff != "" {
				t.Errorf("elements by Updates (-Replace +Updates):\n%s", diff)
			}
			if diff := cmp.Diff(replaced.chains, updated.chains); diff != "" {
				t.Errorf("chains by Updates (-Replace +Updates):\n%s", diff)
			}
		}
	})
}

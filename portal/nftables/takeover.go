package nftables

import (
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/layout"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

// takeOver takes portals for written if the table is as replace would make it, whatever changes led there. The clients
// in affinity sets may be any, except clients of endpoints that are gone.
func (t *table) takeOver(portals []portal.Portal) error {
	if err := t.kernel.inForce(); err != nil {
		return err
	}
	s, c := build(t.rules, portals, t.open)
	t.state = s
	listed, err := t.kernel.listChains()
	if err != nil {
		return err
	}
	var drift writer.Drift
	compareChains(&drift, wantedChains(t.kernel.wire, c), listed,
		func(is, wanted nft.ListedRule) bool { return is.Digest == wanted.Digest })
	if err := drift.Err(); err != nil {
		return err // elements are many
	}
	t.compared = time.Time{}
	for _, compare := range []func(*writer.Drift) error{
		func(drift *writer.Drift) error { return t.compareTypes(c, drift) }, t.auditSets, t.auditClients,
	} {
		if err := compare(&drift); err != nil {
			return err
		}
	}
	if err := drift.Err(); err != nil {
		return err
	}
	t.followAll(&changeset{})
	t.chains = listed
	t.diverts.Store(t.rules.Mark != 0)
	return nil
}

// wantedChains are the chains of a changeset that starts from an empty table, as the kernel would list them except for
// handles.
func wantedChains(t *nft.Table, c *changeset) map[string]*nft.ListedChain {
	out := make(map[string]*nft.ListedChain, len(c.writeChains))
	for _, chain := range c.writeChains {
		l := &nft.ListedChain{Hook: chain.Hook, Accepts: true}
		for _, r := range chain.Rules {
			l.Rules = append(l.Rules, nft.ListedRule{Digest: t.Digest(r)})
		}
		out[chain.Name] = l
	}
	return out
}

// compareTypes looks for sets that were made with other types or flags.
func (t *table) compareTypes(c *changeset, drift *writer.Drift) error {
	listed, err := t.kernel.listSets()
	for _, s := range c.createSets {
		if is, exists := listed[s.Name]; exists && is.Description != s.Description() {
			drift.Add("set %s is of another type", s.Name)
		}
	}
	return err
}

// auditClients looks for clients of endpoints that are gone, which an Update that was cut short leaves.
func (t *table) auditClients(drift *writer.Drift) error {
	for id := range t.state.shared.Counts() {
		id, ok := id.(layout.ClientsID)
		if !ok {
			continue
		}
		a := t.state.affinity(id.Owner)
		err := t.kernel.listElements(a.clients, func(e nft.SetElement) {
			if !a.endpoints[e.Slot] {
				drift.Add("set %s has a client of an endpoint that is gone", a.clients.Name)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// forget is as if nothing had been written.
func (t *table) forget() {
	t.state, t.chains = newState(t.rules), nil
	t.refusals.Retain(func(service.Frontend) bool { return false })
	t.diverts.Store(false)
}

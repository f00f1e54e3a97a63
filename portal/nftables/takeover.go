package nftables

import (
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/writer"
)

// takeOver takes portals for written if the table is as replace would make it, whatever changes led there. The clients
// in affinity sets may be any, but not those of endpoints that are gone.
func (t *table) takeOver(portals []portal.Portal) error {
	if err := t.inForce(); err != nil {
		return err
	}
	s, c := build(t.rules, portals, t.open)
	t.state = s
	listed, err := t.listChains()
	if err != nil {
		return err
	}
	var found writer.Drift
	compareChains(&found, t.wantedChains(c), listed,
		func(is, wanted listedRule) bool { return is.digest == wanted.digest })
	if err := found.Err(); err != nil {
		return err // elements are many
	}
	t.compared = time.Time{}
	for _, compare := range []func(*writer.Drift) error{
		func(found *writer.Drift) error { return t.compareTypes(c, found) }, t.auditSets, t.auditClients,
	} {
		if err := compare(&found); err != nil {
			return err
		}
	}
	if err := found.Err(); err != nil {
		return err
	}
	t.chains = listed
	t.diverts.Store(t.mark != 0)
	return nil
}

// wantedChains are those of a changeset from no table, as the kernel would list them but for handles.
func (t *table) wantedChains(c *changeset) map[string]*listedChain {
	out := make(map[string]*listedChain, len(c.writeChains))
	for _, chain := range c.writeChains {
		l := &listedChain{hook: chain.hook, accepts: true}
		for _, r := range chain.rules {
			l.rules = append(l.rules, listedRule{digest: t.digest(r, t.encode(r, new(uint32)))})
		}
		out[chain.name] = l
	}
	return out
}

// compareTypes looks for sets that were made with other types or flags.
func (t *table) compareTypes(c *changeset, found *writer.Drift) error {
	listed, err := t.listSets()
	for _, s := range c.createSets {
		if is, exists := listed[s.name]; exists && is.description != s.description() {
			found.Add("set %s is of another type", s.name)
		}
	}
	return err
}

// auditClients looks for clients of endpoints that are gone, which an Update that was cut short leaves.
func (t *table) auditClients(found *writer.Drift) error {
	for id := range t.state.shared.Counts() {
		id, ok := id.(clientsID)
		if !ok {
			continue
		}
		a := t.state.affinity(id.owner)
		err := t.listElements(a.clients, func(e setElement) {
			if !a.endpoints[e.slot] {
				found.Add("set %s has a client of an endpoint that is gone", a.clients.name)
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
	t.diverts.Store(false)
}

package nftables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/nfnl"
)

// table is the table of one family, and what was written to it.
type table struct {
	rules
	conn  *nfnl.Conn
	name  string
	state *state
	open  map[portal.ProxyPort]bool // proxy ports of the family
	ids   uint32                    // the last id of an anonymous set

	chains   map[string]*listedChain // as the kernel listed them after the last change
	compared time.Time               // when all elements were last known to be right

	log      func(format string, args ...any)
	reported bool // that replies cannot be diverted
	diverts  atomic.Bool
}

// open finds out whether the kernel can serve the family.
func open(c *nfnl.Conn, r rules, o Options) (*table, error) {
	t := &table{rules: r, conn: c, name: o.Table, state: newState(r), open: map[portal.ProxyPort]bool{}, log: o.Log}
	if _, _, err := t.exists(); err != nil {
		return nil, fmt.Errorf("ask the kernel for tables of %s: %w", r.ip, err)
	}
	if err := t.checkFeatures(); err != nil {
		return nil, err
	}
	return t, nil
}

// guard takes in which proxy ports were opened and closed.
func (t *table) guard(changes map[portal.ProxyPort]bool) {
	for p, open := range changes {
		if p.Family != t.ip || t.open[p] == open {
			continue
		}
		if t.open[p] = open; !open {
			delete(t.open, p)
		}
		t.state.guard(map[portal.ProxyPort]bool{p: open})
	}
}

// replace gives every chain its rules and every map its elements anew, but keeps the sets of clients that are bound to
// endpoints. If one transaction has room, all takes effect at once.
func (t *table) replace(ctx context.Context, portals []portal.Portal) error {
	err := t.write(ctx, portals)
	if err == nil || t.mark == 0 || ctx.Err() != nil {
		return err
	}
	t.mark = 0 // the expression "socket" came after all others that are needed
	if t.write(ctx, portals) != nil {
		return err
	}
	if !t.reported {
		t.log("%s has no rules for replies to clients' own addresses: %v", t.ip, err)
	}
	t.reported = true
	return nil
}

func (t *table) write(ctx context.Context, portals []portal.Portal) error {
	s, c := build(t.rules, portals, t.open)
	t.state = s
	steps, err := t.rewrite(c)
	if err != nil {
		return err
	}
	for _, steps := range [][]nfnl.Step{steps, t.retireSteps(c)} {
		if err := t.conn.Commit(ctx, steps); err != nil {
			return err
		}
	}
	t.diverts.Store(t.mark != 0)
	t.compared = time.Now()
	if err := t.unbind(ctx, c.unbind); err != nil {
		return err
	}
	t.chains, err = t.listChains()
	return err
}

func (t *table) update(ctx context.Context, changes []portal.Change) error {
	others := func(c portal.Change) bool { return !t.owns(c.Frontend.Addr.Addr()) }
	c := t.state.change(slices.DeleteFunc(slices.Clone(changes), others))
	if c.empty() {
		return nil
	}
	// In a hook a packet goes through the rules of the generation that it met first, but lookups find elements as they
	// are at that time. So a new element must not send it to a chain that is still empty for it, and what later hooks
	// look up for packets that old elements sent on must stay until these are gone.
	for _, steps := range [][]nfnl.Step{t.createSteps(c), t.switchSteps(c), t.retireSteps(c)} {
		if err := t.conn.Commit(ctx, steps); err != nil {
			return err
		}
	}
	if err := t.unbind(ctx, c.unbind); err != nil {
		return err
	}
	return t.relist(c)
}

// unbind deletes the elements of clients that are bound to endpoints that are gone: an endpoint that comes back does
// not get them back. Packets add elements meanwhile and others time out, so that a deletion may need more than one try.
func (t *table) unbind(ctx context.Context, all []affinity) error {
	const tries = 3
	for _, a := range all {
		for range tries {
			err := t.unbindOnce(ctx, a)
			if err == nil {
				break
			}
			if !errors.Is(err, syscall.ENOENT) {
				return err
			}
		}
	}
	return nil
}

func (t *table) unbindOnce(ctx context.Context, a affinity) error {
	var stale []filled
	err := t.listElements(a.clients, func(e filled) {
		if !a.endpoints[e.slot] {
			stale = append(stale, e)
		}
	})
	if err != nil {
		return err
	}
	return t.conn.Commit(ctx, oneByOne(t.deleteElements(a.clients, stale)))
}

// relist takes in how the kernel lists what a changeset changed, for audits.
func (t *table) relist(c *changeset) error {
	for _, name := range c.dropChains {
		delete(t.chains, name)
	}
	for _, chain := range slices.Concat(c.writeChains, c.trimChains) {
		t.chains[chain.name] = &listedChain{hook: chain.hook, accepts: true}
		if err := t.listRules(chain.name, t.chains); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) cleanup(ctx context.Context) error {
	t.state = newState(t.rules)
	t.diverts.Store(false)
	exists, _, err := t.exists()
	if !exists || err != nil {
		return err
	}
	return t.conn.Commit(ctx, []nfnl.Step{{t.tableMessage(nfnl.NFT_MSG_DELTABLE)}})
}

package nftables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/layout"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/writer"
)

// table is the table of one family, and what was written to it.
type table struct {
	rules  layout.Rules
	kernel kernelTable
	state  *state
	open   map[portal.ProxyPort]bool // proxy ports of the family

	chains   map[string]*nft.ListedChain // as the kernel listed them after the last change
	compared time.Time                   // when all elements were last known to be right
	refusals *writer.Refusals

	log      func(format string, args ...any)
	stuck    func(inet.Family) // Options.CleanupFailed
	reported bool              // to log that replies cannot be diverted
	diverts  atomic.Bool
}

// open checks that the kernel has the features that the family's rules use.
func open(c *nfnl.Conn, r layout.Rules, o Options) (*table, error) {
	t := &table{rules: r, kernel: kernelTable{c, nft.NewTable(r.Family, o.Table)}, state: newState(r),
		open: map[portal.ProxyPort]bool{}, refusals: writer.NewRefusals(o.Refused), log: o.Log, stuck: o.CleanupFailed}
	if _, _, err := t.kernel.exists(); err != nil {
		return nil, fmt.Errorf("list tables of %s: %w", r.Family.IP, err)
	}
	if err := t.kernel.check(r); err != nil {
		return nil, err
	}
	return t, nil
}

// guard takes note of proxy ports that were opened or closed.
func (t *table) guard(changes map[portal.ProxyPort]bool) {
	for p, open := range changes {
		if p.Family != t.rules.Family.IP {
			continue
		}
		if t.open[p] = open; !open {
			delete(t.open, p)
		}
	}
	t.state.guard(changes)
}

// replace rewrites all chains and elements, except the clients in affinity sets. If one transaction has room, all takes
// effect at once.
func (t *table) replace(ctx context.Context, portals []portal.Portal) error {
	err := t.write(ctx, portals)
	if err == nil || t.rules.Mark == 0 || ctx.Err() != nil {
		return err
	}
	t.rules.Mark = 0 // old kernels lack the expression "socket"
	if t.write(ctx, portals) != nil {
		return err
	}
	if !t.reported {
		t.log("replies to clients' own addresses are not diverted for %s: %v", t.rules.Family.IP, err)
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
	t.countAll()
	if err := t.kernel.conn.Commit(ctx, steps); err != nil {
		return err
	}
	if err := t.retire(ctx, c); err != nil {
		return err
	}
	t.followAll(c)
	t.diverts.Store(t.rules.Mark != 0)
	t.compared = time.Now()
	if err := t.unbind(ctx, c.unbind); err != nil {
		return err
	}
	t.chains, err = t.kernel.listChains()
	return err
}

func (t *table) update(ctx context.Context, changes []portal.Change) error {
	others := func(c portal.Change) bool { return !t.rules.Family.Owns(c.Frontend.Addr.Addr()) }
	c := t.state.change(slices.DeleteFunc(slices.Clone(changes), others))
	if c.empty() {
		return nil
	}
	t.countLast(c)
	// Within a hook a packet sees the rules of one generation, but elements as they are at the time of each lookup. So
	// chains come a transaction before elements that lead there, for which they would be empty otherwise; and elements
	// that later hooks look up go a transaction after those that lead packets there.
	for _, steps := range [][]nfnl.Step{createSteps(t.kernel.wire, c), switchSteps(t.kernel.wire, c)} {
		if err := t.kernel.conn.Commit(ctx, steps); err != nil {
			return err
		}
	}
	t.follow(c)
	if err := t.retire(ctx, c); err != nil {
		return err
	}
	if err := t.unbind(ctx, c.unbind); err != nil {
		return err
	}
	return t.relist(c)
}

// retire deletes what nothing leads packets to any more.
func (t *table) retire(ctx context.Context, c *changeset) error {
	err := t.kernel.conn.Commit(ctx, retireSteps(t.kernel.wire, c))
	if err != nil {
		t.stuck(t.rules.Family.IP)
	}
	return err
}

// unbind deletes clients of endpoints that are gone: an endpoint that comes back does not get them back. Elements that
// time out meanwhile make a deletion fail, so that it may need more than one try.
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
	var stale []nft.SetElement
	err := t.kernel.listElements(a.clients, func(e nft.SetElement) {
		if !a.endpoints[e.Slot] {
			stale = append(stale, e)
		}
	})
	if err != nil {
		return err
	}
	return t.kernel.conn.Commit(ctx, oneByOne(t.kernel.wire.DeleteElements(a.clients, stale)))
}

// relist remembers how the kernel lists the chains of a changeset, for audits.
func (t *table) relist(c *changeset) error {
	for _, name := range c.dropChains {
		delete(t.chains, name)
	}
	for _, chain := range slices.Concat(c.writeChains, c.trimChains) {
		t.chains[chain.Name] = &nft.ListedChain{Hook: chain.Hook, Accepts: true}
		if err := t.kernel.listRules(chain.Name, t.chains); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) cleanup(ctx context.Context) error {
	t.forget()
	exists, _, err := t.kernel.exists()
	if !exists || err != nil {
		return err
	}
	return t.kernel.conn.Commit(ctx, []nfnl.Step{{t.kernel.wire.Remove()}})
}

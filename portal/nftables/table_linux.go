package nftables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/portal"
)

// table is the one of a family, and what it was given.
type table struct {
	rules
	conn  *conn
	name  string
	state *state
	ids   uint32 // the last number of an anonymous set

	chains map[string]*heldChain // as the host had them when it was last written to

	looked time.Time // when all elements were known to be right

	log     func(format string, args ...any)
	told    bool // that replies cannot be diverted
	diverts atomic.Bool
}

// open finds out whether the kernel can serve the family.
func open(c *conn, r rules, o Options) (*table, error) {
	t := &table{rules: r, conn: c, name: o.Table, state: newState(r), log: o.Log}
	if _, _, err := t.there(); err != nil {
		return nil, fmt.Errorf("ask the kernel for tables of %s: %w", r.family.name, err)
	}
	if err := t.capable(); err != nil {
		return nil, err
	}
	return t, nil
}

// replace gives every chain its rules and every map its elements anew, and leaves to their sets the clients that are bound
// to endpoints. In one transaction all of that takes effect at once.
func (t *table) replace(ctx context.Context, portals []portal.Portal, open map[portal.ProxyPort]bool) error {
	err := t.write(ctx, portals, open)
	if err == nil || t.mark == 0 || ctx.Err() != nil {
		return err
	}
	t.mark = 0 // old kernels know nothing of transparent sockets
	if t.write(ctx, portals, open) != nil {
		return err
	}
	if !t.told {
		t.log("%s has no rules for replies to clients' own addresses: %v", t.family.name, err)
	}
	t.told = true
	return nil
}

func (t *table) write(ctx context.Context, portals []portal.Portal, open map[portal.ProxyPort]bool) error {
	s, e := whole(t.rules, portals, open)
	t.state = s
	steps, err := t.whole(e)
	if err != nil {
		return err
	}
	for _, steps := range [][][]netlink.Message{steps, t.parting(e)} {
		if err := t.conn.commit(ctx, steps); err != nil {
			return err
		}
	}
	t.diverts.Store(t.mark != 0)
	t.looked = time.Now()
	if err := t.forget(ctx, e.lost); err != nil {
		return err
	}
	t.chains, err = t.heldChains()
	return err
}

func (t *table) update(ctx context.Context, changes []portal.Change) error {
	ours := slices.DeleteFunc(slices.Clone(changes), func(c portal.Change) bool { return !t.owns(c.Frontend.Addr.Addr()) })
	e := t.state.change(ours)
	if e.empty() {
		return nil
	}
	// In a hook a packet keeps the rules that it met first, but it sees elements as they are when it asks. It must not be led
	// by a new one to a chain that it finds empty, nor miss in a later hook what goes with where it was led.
	for _, steps := range [][][]netlink.Message{t.making(e), t.leading(e), t.parting(e)} {
		if err := t.conn.commit(ctx, steps); err != nil {
			return err
		}
	}
	if err := t.forget(ctx, e.lost); err != nil {
		return err
	}
	return t.note(e)
}

// forget unbinds clients from endpoints that are gone: one that comes back has no claim to them. Others go on to be bound
// and to be forgotten meanwhile, so that it may take more than one try.
func (t *table) forget(ctx context.Context, all []bonds) error {
	for _, b := range all {
		for range 3 {
			var stale []filled
			err := t.heldElements(b.of, func(e filled) {
				if !b.with[e.slot] {
					stale = append(stale, e)
				}
			})
			if err != nil {
				return err
			}
			var steps [][]netlink.Message
			for _, m := range t.elements(unix.NFT_MSG_DELSETELEM, t.name, b.of, 0, stale) {
				steps = append(steps, []netlink.Message{m})
			}
			if err = t.conn.commit(ctx, steps); err == nil {
				break
			} else if !errors.Is(err, syscall.ENOENT) {
				return err
			}
		}
	}
	return nil
}

// note keeps what the host made of an edit, for audits.
func (t *table) note(e *edit) error {
	for _, name := range e.gone {
		delete(t.chains, name)
	}
	for _, c := range slices.Concat(e.chains, e.late) {
		t.chains[c.name] = &heldChain{hook: c.hook, accepts: true}
		if err := t.heldRules(c.name, t.chains); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) cleanup(ctx context.Context) error {
	t.state = newState(t.rules)
	t.diverts.Store(false)
	there, _, err := t.there()
	if !there || err != nil {
		return err
	}
	return t.conn.commit(ctx, [][]netlink.Message{{t.message(unix.NFT_MSG_DELTABLE, 0, unix.NFTA_TABLE_NAME, "")}})
}

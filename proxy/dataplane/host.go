package dataplane

import (
	"context"
	"errors"
	"fmt"

	"github.com/portald/portald/portal"
)

// host has the writer put the table's portals on the host, and guard proxy ports and health-check ports.
type host struct {
	writer    portal.Writer
	table     *portal.Table
	carriers  *carriers
	health    *healthPorts
	inherits  func() bool
	adopted   func(error)
	rewritten func(error)
	replaced  func() // the rules of any portal may have been away
	emptied   bool   // the host is to have no portal any more
}

// write has the writer bring the host up to date with the table. An Update may fail because others changed the host's
// rules, and no plan is to blame: Replace decides.
func (h *host) write(ctx context.Context, changed []portal.Change) error {
	refused := h.update(ctx, changed)
	if refused == nil || ctx.Err() != nil {
		return refused
	}
	if err := h.replace(ctx); err != nil {
		return errors.Join(refused, err)
	}
	h.rewritten(refused)
	return nil
}

// writeAll is write, whatever was written before.
func (h *host) writeAll(ctx context.Context) error {
	if h.adopt(ctx) {
		h.replaced()
		return nil
	}
	return h.replace(ctx)
}

func (h *host) update(ctx context.Context, changed []portal.Change) error {
	if !h.guard() && len(changed) == 0 {
		return nil
	}
	if err := h.writer.Update(ctx, changed); err != nil {
		return fmt.Errorf("program %d portals: %w", len(changed), err)
	}
	return nil
}

// adopt has the writer go on with what an earlier run wrote, and tells whether it does.
func (h *host) adopt(ctx context.Context) bool {
	if !h.writer.Features().Adopts || !h.inherits() {
		return false
	}
	h.guard()
	all := h.table.Portals()
	err := h.writer.Adopt(ctx, all)
	if err != nil {
		err = fmt.Errorf("adopt %d portals: %w", len(all), err)
	}
	h.adopted(err)
	return err == nil
}

func (h *host) replace(ctx context.Context) error {
	h.guard()
	var all []portal.Portal
	if !h.emptied {
		all = h.table.Portals()
	}
	if err := h.writer.Replace(ctx, all); err != nil {
		return fmt.Errorf("program all %d portals: %w", len(all), err)
	}
	h.replaced()
	return nil
}

// unguard stops guarding the proxy ports that carriers have closed since the last write.
func (h *host) unguard(ctx context.Context) error {
	if err := h.write(ctx, nil); err != nil {
		return fmt.Errorf("unguard closed proxy ports: %w", err)
	}
	return nil
}

// guard passes on to the writer which proxy ports and health-check ports were opened and closed. False: none.
func (h *host) guard() (changed bool) {
	changed = h.health.flush(h.writer)
	h.carriers.eachProxyPorts(func(ports map[portal.ProxyPort]bool) {
		h.writer.Guard(ports)
		changed = true
	})
	return changed
}

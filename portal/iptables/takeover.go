package iptables

import (
	"context"
	"errors"
	"time"

	"github.com/portald/portald/portal"
)

// takeOver takes portals for written if the host holds what the first replace would leave there. That keeps the rules
// for flows of portals that spread, also when none does any more.
func (h *host) takeOver(ctx context.Context, portals []portal.Portal) error {
	h.forget()
	h.put(portals)
	h.spread(h.nat, h.filter)
	installed, err := h.read(ctx)
	if err != nil {
		return err
	}
	h.keepSpreading(installed)
	h.mangle.spreading = h.nat.spreading
	errs := []error{h.mangle.clash()}
	for _, t := range h.tables() {
		t.sync(installed[t])
		errs = append(errs, t.compare(t.written, installed[t]))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	h.followAll(ctx, nil)
	h.noteMangle(nil)
	h.whole = time.Now()
	return nil
}

package iptables

import (
	"context"
	"fmt"
)

// Endpoints that are dialled from a client's own address answer to that address. Where the answer passes this node, a
// rule before routing finds the socket that it is for and marks it, and the host's routing delivers what is so marked
// here (platform.Divert). The rule finds connected sockets alone: to take in listeners that are bound to no address,
// which others may have here, would catch connections that only pass through.

// divertRules mark the packet. Others' rules go on with it.
func (r renderer) divertRules() string {
	return fmt.Sprintf("-A %s -j MARK --set-xmark %#x/%#x\n", r.divert, r.mark, r.mark)
}

// inUse tells whether the table mangle is to hold anything.
func (t *table) inUse() bool { return t.mark != 0 || t.spreading || len(t.extras) > 0 }

// replaceMangle has the table hold what it should, or nothing of ours, given what it holds. In a host that has no use for
// the table it is not made.
func (h *host) replaceMangle(ctx context.Context, held saved) {
	if m := h.mangle; m.mark&m.masquerade.Mark != 0 {
		h.settleMangle(fmt.Errorf("mark %#x is also that of what is masqueraded", m.masquerade.Mark))
		return
	}
	h.settleMangle(h.apply(ctx, h.mangle.sync(held)))
}

// updateMangle has it hold what the first spread portal brings.
func (h *host) updateMangle(ctx context.Context) {
	if h.mangle.spreading == h.nat.spreading || h.told {
		return
	}
	h.mangle.spreading = h.nat.spreading
	h.settleMangle(h.apply(ctx, h.mangle.update()))
}

// settleMangle notes how that went. That it cannot is told and no error: nothing needs it but the way in which endpoints
// see the client.
func (h *host) settleMangle(err error) {
	h.mangled = err == nil && h.mangle.inUse()
	h.diverts.Store(err == nil && h.mangle.mark != 0)
	if err != nil && !h.told {
		h.log("%s has no rules, or stale ones, for replies to clients' own addresses: %v", h.name, err)
	}
	h.told = err != nil
}

package iptables

import (
	"context"
	"fmt"
)

// Endpoints that the daemon dials from a client's own address answer to that address. Where the answer passes this
// node, a rule before routing finds its socket and marks the packet, and the host's routing delivers marked packets
// here (platform.Divert). The rule finds connected sockets only: with listeners that are bound to no address, which
// other programs may have here, it would catch connections that only pass through.

// inUse tells whether the table mangle is to hold anything.
func (t *table) inUse() bool { return t.mark != 0 || t.spreading || len(t.extras) > 0 }

// replaceMangle writes the table, given what it holds. It is not created on a host that needs nothing in it.
func (h *host) replaceMangle(ctx context.Context, installed saved) {
	if err := h.mangle.clash(); err != nil {
		h.noteMangle(err)
		return
	}
	h.noteMangle(h.apply(ctx, h.mangle.sync(installed)))
}

// clash is an error if the marks of replies and of what is masqueraded have a bit in common.
func (r renderer) clash() error {
	if r.mark&r.masquerade.Mark == 0 {
		return nil
	}
	return fmt.Errorf("mark %#x is also that of what is masqueraded", r.masquerade.Mark)
}

// updateMangle writes what the first portal that spreads needs.
func (h *host) updateMangle(ctx context.Context) {
	if h.mangle.spreading == h.nat.spreading || h.reported {
		return
	}
	h.mangle.spreading = h.nat.spreading
	h.noteMangle(h.apply(ctx, h.mangle.update()))
}

// noteMangle notes how that went. A failure is logged and is no error: only the client's address that endpoints see
// depends on it.
func (h *host) noteMangle(err error) {
	h.mangleInUse = err == nil && h.mangle.inUse()
	h.diverts.Store(err == nil && h.mangle.mark != 0)
	if err != nil && !h.reported {
		h.log("%s has no rules, or stale ones, for replies to clients' own addresses: %v", h.ip, err)
	}
	h.reported = err != nil
}

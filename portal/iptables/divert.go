package iptables

import (
	"context"
	"fmt"
	"slices"
)

// Endpoints that are dialled from a client's own address answer to that address. Where the answer passes this node, a
// rule before routing finds the socket that it is for and marks it, and the host's routing delivers what is so marked
// here (platform.Divert). The rule finds connected sockets alone: to take in listeners that are bound to no address,
// which others may have here, would catch connections that only pass through.

// divertRules mark the packet. Others' rules go on with it.
func (r renderer) divertRules() string {
	return fmt.Sprintf("-A %s -j MARK --set-xmark %#x/%#x\n", r.divert, r.mark, r.mark)
}

// replaceDivert has the table hold the rules, or none of ours. That it cannot is told and no error: nothing needs them
// but the way in which endpoints see the client.
func (h *host) replaceDivert(ctx context.Context) {
	err := h.writeDivert(ctx)
	h.diverts.Store(err == nil && h.mangle.mark != 0)
	if err != nil && !h.told {
		h.log("%s has no rules, or stale ones, for replies to clients' own addresses: %v", h.name, err)
	}
	h.told = err != nil
}

func (h *host) writeDivert(ctx context.Context) error {
	if h.mangle.mark == 0 {
		return h.clearDivert(ctx)
	}
	held, err := h.dump(ctx, mangleTable)
	if err != nil {
		return err
	}
	return h.apply(ctx, h.mangle.sync(h.mangle.parseSaved(held)))
}

// clearDivert removes what an earlier run left, once. The table is not asked for by its name: that would make it, in a
// host that has no use for it.
func (h *host) clearDivert(ctx context.Context) error {
	if h.cleared {
		return nil
	}
	held, err := h.dumpAll(ctx)
	if err == nil {
		err = h.apply(ctx, removal(mangleTable, h.mangle.parseSaved(section(held, mangleTable))))
	}
	h.cleared = err == nil
	return err
}

// Diverts tells whether replies to the addresses of clients that the daemon dials from are marked in that family: with
// Options.Mark, from the first Replace on, on a host that can.
func (w *Writer) Diverts(ipv6 bool) bool {
	return slices.ContainsFunc(w.hosts, func(h *host) bool { return h.v6 == ipv6 && h.diverts.Load() })
}

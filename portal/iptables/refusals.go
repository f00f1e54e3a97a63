package iptables

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/portal/writer"
)

// refusals follow the counters of the rules in filter that refuse. A leaf has one rule for each of its portals, in the
// order of frontends, so that counters are known by their place.
type refusals struct {
	*writer.Refusals
	mu     sync.Mutex
	leaves map[shard]counted // those with such portals; guarded by mu
}

// counted is a leaf as it was written. It does not change once made.
type counted struct {
	chain     string
	frontends []service.Frontend // by rule
}

func newRefusals(o Options) *refusals {
	return &refusals{Refusals: writer.NewRefusals(o.Refused), leaves: map[shard]counted{}}
}

// forget follows no counter any more.
func (r *refusals) forget() {
	r.mu.Lock()
	r.leaves = map[shard]counted{}
	r.mu.Unlock()
	r.Retain(func(service.Frontend) bool { return false })
}

// of returns some leaves, or all; without those that have nothing to count.
func (r *refusals) of(some map[shard]string) []counted {
	r.mu.Lock()
	defer r.mu.Unlock()
	if some == nil {
		return slices.Collect(maps.Values(r.leaves))
	}
	var out []counted
	for s := range some {
		if c, ok := r.leaves[s]; ok {
			out = append(out, c)
		}
	}
	return out
}

// CountRefused implements portal.Writer: in the nft variant it asks the kernel for the chains that count, by a socket
// of its own, and in the legacy one it executes iptables-save.
func (w *Writer) CountRefused(ctx context.Context) error {
	for _, h := range w.hosts {
		if err := h.count(ctx, h.refusals.of(nil)); err != nil {
			return err
		}
	}
	return nil
}

// count reads the counters of leaves. A leaf that somebody changed is passed over.
func (h *host) count(ctx context.Context, leaves []counted) error {
	if len(leaves) == 0 {
		return nil
	}
	reading := h.refusals.Begin()
	packets, err := h.packets(ctx, leaves)
	if err != nil {
		return err
	}
	for _, leaf := range leaves {
		of := packets[leaf.chain]
		if len(of) != len(leaf.frontends) {
			continue
		}
		for i, f := range leaf.frontends {
			reading.Add(f, of[i])
		}
	}
	return nil
}

// countQuietly does the same around a write: what cannot be read is not counted, which is no reason not to write.
func (h *host) countQuietly(ctx context.Context, leaves []counted) { _ = h.count(ctx, leaves) }

// packets are those that the rules of chains have met, in the order of the rules.
func (h *host) packets(ctx context.Context, leaves []counted) (map[string][]uint64, error) {
	if !h.nft || h.lists == nil {
		text, err := h.run(ctx, h.save, []string{"-c", "-t", filterTable}, nil)
		return parsePackets(text), err
	}
	conn, err := nfnl.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	out := make(map[string][]uint64, len(leaves))
	for _, leaf := range leaves {
		if out[leaf.chain], err = listPackets(conn, h.ip, leaf.chain); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// parsePackets reads what iptables-save -c prints: "[packets:bytes] -A CHAIN …".
func parsePackets(text []byte) map[string][]uint64 {
	out := map[string][]uint64{}
	for line := range bytes.Lines(text) {
		rest, isRule := bytes.CutPrefix(line, []byte("["))
		number, rest, _ := bytes.Cut(rest, []byte(":"))
		_, rest, found := bytes.Cut(rest, []byte("] -A "))
		packets, err := strconv.ParseUint(string(number), 10, 64)
		if isRule && found && err == nil {
			name, _, _ := bytes.Cut(rest, []byte(" "))
			out[string(name)] = append(out[string(name)], packets)
		}
	}
	return out
}

// listPackets asks nf_tables for the counters of a chain of the filter table.
func listPackets(conn *nfnl.Conn, family inet.Family, chain string) (out []uint64, err error) {
	number := byte(nfnl.NFPROTO_IPV4)
	if family == inet.IPv6 {
		number = nfnl.NFPROTO_IPV6
	}
	var a nfnl.Attributes
	a.String(nfnl.NFTA_RULE_TABLE, filterTable)
	a.String(nfnl.NFTA_RULE_CHAIN, chain)
	err = conn.List(nfnl.Request(nfnl.NFT_MSG_GETRULE, nfnl.Dump, number, a), func(list []byte) error {
		var packets uint64
		err := nfnl.Decode(list, func(d *nfnl.Decoder) {
			if d.Type() == nfnl.NFTA_RULE_EXPRESSIONS {
				d.Do(func(list []byte) (err error) {
					packets, err = nfnl.Packets(list)
					return err
				})
			}
		})
		out = append(out, packets)
		return err
	})
	return out, err
}

// applyFilter runs a script of the table filter. It reads the counters that the script sets to 0 before. In the legacy
// variant all are 0 for a moment: iptables-restore replaces the table, and then adds what the rules that stay had.
func (h *host) applyFilter(ctx context.Context, s *script) error {
	held := h.refusals.of(s.leaves)
	h.countQuietly(ctx, held)
	if !h.nft {
		held = h.refusals.of(nil)
	}
	for _, leaf := range held {
		h.refusals.Hold(leaf.frontends)
	}
	err := h.apply(ctx, s)
	if !h.nft {
		h.goOn(s.leaves)
	}
	if err != nil {
		return err
	}
	for at := range s.leaves {
		h.follow(at, h.refusals.Wrote)
	}
	return nil
}

// goOn follows the counters of leaves again that were not written.
func (h *host) goOn(written map[shard]string) {
	h.refusals.mu.Lock()
	all := slices.Collect(maps.Keys(h.refusals.leaves))
	h.refusals.mu.Unlock()
	for _, at := range all {
		if _, ok := written[at]; !ok {
			h.follow(at, h.refusals.Found)
		}
	}
}

// follow takes in what a leaf has now, given what to tell of the portals that refuse.
func (h *host) follow(at shard, tell func(service.Frontend, service.PortName)) {
	portals := slices.SortedFunc(maps.Values(h.filter.tree.leaves[at]), func(a, b portal.Portal) int {
		return a.Frontend.Compare(b.Frontend)
	})
	now, counts := counted{chain: h.filter.leaf(at)}, false
	for _, p := range portals {
		now.frontends = append(now.frontends, p.Frontend)
		if p.Refuses() {
			counts = true
			tell(p.Frontend, p.Owner)
		}
	}
	h.refusals.mu.Lock()
	before := h.refusals.leaves[at]
	if delete(h.refusals.leaves, at); counts {
		h.refusals.leaves[at] = now
	}
	h.refusals.mu.Unlock()
	for _, f := range before.frontends {
		if p, ok := h.filter.tree.leaves[at][f]; !ok || !p.Refuses() {
			h.refusals.Removed(f)
		}
	}
}

// followAll does the same of all leaves, after all was written but the leaves that were on the host as wanted.
func (h *host) followAll(ctx context.Context, written map[shard]string) {
	all := map[shard]bool{}
	for at := range h.filter.tree.leaves {
		all[at] = true
	}
	h.refusals.mu.Lock()
	for at := range h.refusals.leaves {
		all[at] = true
	}
	h.refusals.mu.Unlock()
	for at := range all {
		if _, wrote := written[at]; wrote {
			h.follow(at, h.refusals.Wrote)
		} else {
			h.follow(at, h.refusals.Found)
		}
	}
	if h.refusals.Unread() {
		h.countQuietly(ctx, h.refusals.of(nil))
	}
}

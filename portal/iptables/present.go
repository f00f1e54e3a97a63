package iptables

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/nfnl"
)

// Leftovers counts the rules that Writers of a prefix left on the host, in one variant of iptables.
type Leftovers struct {
	Chains  bool // there are chains with names of ours
	Written bool // some of them only a Writer makes, which tells its rules from kube-proxy's with the same names
}

// Look looks for leftovers in both families. It is an error if there are no commands of that variant. Unlike a Writer
// it creates no tables, and loads no kernel modules.
func Look(ctx context.Context, o Options) (leftovers Leftovers, err error) {
	var conn *nfnl.Conn // nil: chains are not listed by it
	if o.Run == nil {   // the commands of this host
		if conn, err = nfnl.Dial(); err == nil {
			defer conn.Close()
		}
	}
	for _, f := range []family{ipv4(), ipv6()} {
		h, err := bare(f, o)
		if err != nil {
			return Leftovers{}, err
		}
		if conn != nil && h.probeVersion(ctx) == nil && h.nft {
			h.lists = listChains(conn, f.ip)
		}
		if err := h.look(ctx, &leftovers); err != nil && f.ip == inet.IPv4 {
			return Leftovers{}, err
		}
	}
	return leftovers, nil
}

// VariantOf tells which variant the commands of an Options.Variant are: "nft" or "legacy".
func VariantOf(ctx context.Context, o Options) (string, error) {
	h, err := bare(ipv4(), o)
	if err != nil {
		return "", err
	}
	if err := h.probeVersion(ctx); err != nil {
		return "", err
	}
	if h.nft {
		return "nft", nil
	}
	return "legacy", nil
}

// bare returns a host of which nothing is known yet.
func bare(f family, o Options) (*host, error) {
	names, err := o.complete()
	if err != nil {
		return nil, err
	}
	return newHost(f, names, o)
}

// look adds the leftovers of the family.
func (h *host) look(ctx context.Context, leftovers *Leftovers) error {
	names, err := h.chainNames(ctx)
	for _, name := range names {
		leftovers.Chains = leftovers.Chains || h.nat.own(name)
		leftovers.Written = leftovers.Written || name == h.nat.guard
	}
	return err
}

// chainNames are those of the chains that the host has. In the nft variant the kernel lists them: the command would
// print all rules too, which takes seconds of CPU where there are a hundred thousand.
func (h *host) chainNames(ctx context.Context) ([]string, error) {
	if h.lists != nil {
		return h.listedNames()
	}
	installed, err := h.dump(ctx)
	var names []string
	for line := range bytes.Lines(installed) {
		if name, ok := bytes.CutPrefix(line, []byte(":")); ok {
			name, _, _ = bytes.Cut(name, []byte(" "))
			names = append(names, string(name))
		}
	}
	return names, err
}

func (h *host) listedNames() (names []string, err error) {
	for _, t := range h.tables() {
		uses, err := h.lists(t.name)
		if err != nil {
			return nil, err
		}
		names = slices.AppendSeq(names, maps.Keys(uses))
	}
	return names, nil
}

package iptables

import (
	"bytes"
	"context"

	"github.com/portald/portald/platform/inet"
)

// Leftovers counts the rules that Writers of a prefix left on the host, in one variant of iptables.
type Leftovers struct {
	Chains  bool // there are chains with names of ours
	Written bool // some of them only a Writer makes, which tells its rules from kube-proxy's with the same names
}

// Look looks for leftovers in both families. It is an error if there are no commands of that variant. Unlike a Writer
// it creates no tables, and loads no kernel modules.
func Look(ctx context.Context, o Options) (leftovers Leftovers, err error) {
	for _, f := range []family{ipv4(), ipv6()} {
		h, err := bare(f, o)
		if err != nil {
			return Leftovers{}, err
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
	installed, err := h.dump(ctx)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(installed) {
		name, ok := bytes.CutPrefix(line, []byte(":"))
		if !ok {
			continue
		}
		name, _, _ = bytes.Cut(name, []byte(" "))
		leftovers.Chains = leftovers.Chains || h.nat.own(string(name))
		leftovers.Written = leftovers.Written || string(name) == h.nat.guard
	}
	return nil
}

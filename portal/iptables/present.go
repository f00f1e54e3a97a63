package iptables

import (
	"bytes"
	"context"

	"github.com/portald/portald/proxy/service"
)

// Trace is what Writers of a prefix left on the host, in one variant of iptables.
type Trace struct {
	Chains  bool // with names of ours
	Written bool // some of which only a Writer makes: of names like kube-proxy's, those tell its rules from kube-proxy's own
}

// Look looks for such a trace in both families. It is an error if there are no commands of that variant. Unlike a Writer it
// makes no tables, nor has it the kernel load any.
func Look(ctx context.Context, o Options) (found Trace, err error) {
	for _, f := range []family{ipv4(), ipv6()} {
		h, err := bare(f, o)
		if err != nil {
			return Trace{}, err
		}
		if err := h.look(ctx, &found); err != nil && f.ip == service.IPv4 {
			return Trace{}, err
		}
	}
	return found, nil
}

// VariantOf tells which variant the commands of an Options.Variant are: "nft" or "legacy".
func VariantOf(ctx context.Context, o Options) (string, error) {
	h, err := bare(ipv4(), o)
	if err != nil {
		return "", err
	}
	if err := h.learn(ctx); err != nil {
		return "", err
	}
	if h.nft {
		return "nft", nil
	}
	return "legacy", nil
}

// bare is a host that nothing was asked of yet.
func bare(f family, o Options) (*host, error) {
	names, err := o.complete()
	if err != nil {
		return nil, err
	}
	return newHost(f, names, o)
}

// look adds what the family holds.
func (h *host) look(ctx context.Context, found *Trace) error {
	held, err := h.dump(ctx)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(held) {
		name, ok := bytes.CutPrefix(line, []byte(":"))
		if !ok {
			continue
		}
		name, _, _ = bytes.Cut(name, []byte(" "))
		found.Chains = found.Chains || h.nat.own(string(name))
		found.Written = found.Written || string(name) == h.nat.guard
	}
	return nil
}

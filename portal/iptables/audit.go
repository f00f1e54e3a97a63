package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// In the nft variant a dump of a hundred thousand rules takes seconds of CPU, and so does one of a table if another has
// them. So with many rules an audit looks at the chains that a flush of the table destroys and that are cheap to list,
// and at how much is in each chain; at everything once in a while. The legacy variant dumps all as fast as one chain.
const (
	manyRules  = 5_000
	wholeAudit = time.Hour // kube-proxy's
)

func (h *host) audit(ctx context.Context) error {
	if h.glances() && time.Since(h.whole) < wholeAudit {
		return h.auditFew(ctx)
	}
	installed, err := h.dump(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range h.written() {
		errs = append(errs, t.compare(t.written, t.parseSaved(section(installed, t.name))))
	}
	err = errors.Join(errs...)
	if err == nil {
		h.whole = time.Now()
	}
	return err
}

// glances tells whether there are so many rules that an audit does not look at all of them.
func (h *host) glances() bool {
	many := 0
	for _, t := range h.written() {
		many += t.rules
	}
	return h.nft && many > manyRules
}

func (h *host) auditFew(ctx context.Context) error {
	var errs []error
	for _, t := range h.written() {
		errs = append(errs, h.compareFew(ctx, t))
		if h.lists == nil {
			continue
		}
		installed, err := h.lists(t.name)
		if err == nil {
			err = t.compareUses(installed)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("table %s: %w", t.name, err))
		}
	}
	return errors.Join(errs...)
}

// compareFew compares the jumps, the chain that they jump to and the canary.
func (h *host) compareFew(ctx context.Context, t *table) error {
	written := ruleset{}
	var chains []string
	for _, name := range []string{t.services, t.canary} {
		if c, ok := t.written[name]; ok {
			written[name] = c
			chains = append(chains, name)
		}
	}
	for _, j := range t.linked {
		chains = append(chains, j.chain)
	}
	slices.Sort(chains)
	var text []byte
	for _, chain := range slices.Compact(chains) {
		rules, err := h.list(ctx, t.name, chain)
		if err != nil {
			return fmt.Errorf("table %s: list chain %s: %w", t.name, chain, err)
		}
		text = append(text, rules...)
	}
	text = bytes.ReplaceAll(append([]byte("\n"), text...), []byte("\n-N "), []byte("\n:"))
	return t.compare(written, t.parseSaved(text))
}

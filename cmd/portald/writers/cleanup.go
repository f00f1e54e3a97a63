package writers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/netsh"
	"github.com/portald/portald/portal/service"
)

// Cleanup removes the rules that any run of portald left on the host, in whatever mode and in both variants of
// iptables.
func Cleanup(ctx context.Context, cfg *config.Config, log *logrus.Logger) error {
	if Direct(cfg) {
		return netsh.Remove(ctx, netshOptions(cfg, Deps{Log: log}))
	}
	existing := findRuleSets(ctx, cfg, findVariants(ctx, cfg, commandVariants()...))
	if len(existing) == 0 {
		_, err := New(ctx, cfg, Deps{Log: log}) // its error says why there is nothing that could be looked at
		return err
	}
	var errs []error
	for _, r := range existing {
		errs = append(errs, r.clear(ctx, cfg))
	}
	return errors.Join(append(errs, NamesOf(cfg).RemoveDivert())...)
}

// CleanupOthers removes rules that runs in other modes left, and in a kernel mode kube-proxy's rules of another mode
// too: this portald takes its names and its place. It executes some commands, and goes on only while owns says that no
// other portald serves the node by now.
func CleanupOthers(ctx context.Context, cfg *config.Config, owns func() bool, log logrus.FieldLogger) {
	if Direct(cfg) {
		return
	}
	current := variantOf(ctx, cfg, cfg.IPTablesVariant)
	if current == "" && slices.Contains([]string{IPTables, IPVS}, cfg.Writer) { // else its own would be removed
		if ctx.Err() == nil {
			log.Warn("Rules of earlier runs in other modes remain: the command iptables --version did not work")
		}
		return
	}
	for _, r := range findRuleSets(ctx, cfg, findVariants(ctx, cfg, commandVariants()...)) {
		if r.isWrittenBy(cfg, current) {
			continue
		}
		if !owns() {
			return
		}
		if err := r.clear(ctx, cfg); err != nil && ctx.Err() == nil {
			log.WithError(err).Warnf("Rules of an earlier run in another mode remain: %s", r.description)
		}
	}
}

// RemoveDivert removes the routing of replies to clients' addresses, in both families.
func (n Names) RemoveDivert() error {
	return errors.Join(n.Divert.Remove(inet.IPv4), n.Divert.Remove(inet.IPv6))
}

// isWrittenBy tells whether a daemon of that configuration, whose iptables is of that variant, writes this rule set or
// a part of it.
func (r ruleSet) isWrittenBy(cfg *config.Config, variant string) bool {
	return r.names == NamesOf(cfg) && (r.writer == cfg.Writer || r.writer == IPTables && cfg.Writer == IPVS) &&
		(r.variant == variant || r.writer != IPTables)
}

// clear removes the rule set. Rules with kube-proxy's names are removed only if portald wrote them, or takes
// kube-proxy's place.
func (r ruleSet) clear(ctx context.Context, cfg *config.Config) error {
	ours := r.names.Chains != kubeChains || alone(cfg) && cfg.Mode == service.ModeKernel
	if !ours {
		written, err := r.written(ctx)
		if err != nil || !written {
			return err
		}
	}
	if err := r.remove(ctx); err != nil {
		return fmt.Errorf("%s: %w", r.description, err)
	}
	return nil
}

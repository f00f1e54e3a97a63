package writers

import (
	"context"
	"slices"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/iptables"
	"github.com/portald/portald/portal/ipvs"
	"github.com/portald/portald/portal/nftables"
)

// ruleSet is the rules under one portald's names in one facility of the host.
type ruleSet struct {
	description string
	writer      string
	variant     string // of iptables
	names       Names
	written     func(context.Context) (bool, error) // by portald, and not by kube-proxy
	remove      func(context.Context) error
}

// variant is one of iptables that the host has: nft or legacy, and the suffix of its commands' names.
type variant struct{ kind, command string }

// findVariants returns the variants of iptables that commands of these names run, each once.
func findVariants(ctx context.Context, cfg *config.Config, commands ...string) (out []variant) {
	for _, command := range commands {
		kind := variantOf(ctx, cfg, command)
		if kind != "" && !slices.ContainsFunc(out, func(v variant) bool { return v.kind == kind }) {
			out = append(out, variant{kind, command})
		}
	}
	return out
}

// commandVariants are the names of commands to try: a host with one variant may have only the plain names.
func commandVariants() []string { return []string{"nft", "legacy", ""} }

// variantOf tells which variant the commands of that name run, empty if there are none.
func variantOf(ctx context.Context, cfg *config.Config, command string) string {
	kind, err := iptables.VariantOf(ctx, variantOptions(cfg, NamesOf(cfg), command))
	if err != nil {
		return ""
	}
	return kind
}

func variantOptions(cfg *config.Config, names Names, command string) iptables.Options {
	of := *cfg
	of.IPTablesVariant = command
	return iptablesOptions(&of, names, Deps{Log: discard()})
}

// findRuleSets returns the rule sets in facilities that the host has. In iptables only variants that hold something
// count: an iptables writer creates tables where a host has none.
func findRuleSets(ctx context.Context, cfg *config.Config, variants []variant) (out []ruleSet) {
	quiet := Deps{Log: discard()}
	for _, n := range everyNames(cfg) {
		tables, written := findInIPTables(ctx, cfg, n, variants)
		if ipvs.Present(n.Chains) { // before the rules that use its sets, since those tell whether portald wrote it
			w, err := newIPVS(ctx, cfg, n, quiet)
			out = append(out, ruleSet{"IPVS " + n.Chains, IPVS, "", n, known(written), cleanup(w, err)})
		}
		out = append(out, tables...)
		if w, err := nftables.New(nftablesOptions(cfg, n, quiet)); err == nil {
			out = append(out, ruleSet{"nftables " + n.Table, NFTables, "", n, w.Present, w.Cleanup})
		}
	}
	return out
}

// findInIPTables returns the rule sets in variants of iptables that have chains with such names, and whether portald
// wrote any of them.
func findInIPTables(
	ctx context.Context, cfg *config.Config, n Names, variants []variant,
) (out []ruleSet, written bool) {
	for _, v := range variants {
		o := variantOptions(cfg, n, v.command)
		found, err := iptables.Look(ctx, o)
		if err != nil || !found.Chains {
			continue
		}
		written = written || found.Written
		w, err := iptables.New(ctx, o)
		description := "iptables-" + v.kind + " " + n.Chains
		out = append(out, ruleSet{description, IPTables, v.kind, n, known(found.Written), cleanup(w, err)})
	}
	return out, written
}

// cleanup returns what removes a rule set that is there: by its writer, or in vain if there is none.
func cleanup(w portal.Writer, err error) func(context.Context) error {
	if err != nil {
		return func(context.Context) error { return err }
	}
	return w.Cleanup
}

func known(written bool) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) { return written, nil }
}

// discard returns a log that writes nothing.
func discard() *logrus.Logger {
	log := logrus.New()
	log.SetLevel(logrus.PanicLevel)
	return log
}

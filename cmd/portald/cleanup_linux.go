package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal/iptables"
	"github.com/portald/portald/portal/ipvs"
	"github.com/portald/portald/portal/nftables"
	"github.com/portald/portald/proxy/service"
)

// cleanup removes what any run of portald left on the host, in whatever mode.
func cleanup(ctx context.Context, cfg *config.Config, log *logrus.Logger) error {
	var errs []error
	names := everyVariant()
	if cfg.IPTablesVariant != "" {
		names = []string{cfg.IPTablesVariant}
	}
	places := placesOf(ctx, cfg, variantsOf(ctx, cfg, names...))
	for _, p := range places {
		errs = append(errs, p.clear(ctx, cfg))
	}
	if len(places) == 0 {
		_, err := newWriter(cfg, traceOf(cfg), told{log: log})
		return err
	}
	return errors.Join(append(errs, forFamilies(traceOf(cfg).divert.Remove))...)
}

// clearOthers removes what runs in another mode left, once the rules of this one stand. In a kernel mode that is what
// kube-proxy left in another mode, too: this portald has its names and its place. To look takes some commands, which
// changes of Services do not wait for.
func (d *daemon) clearOthers(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.stands:
	}
	own := variantOf(ctx, d.cfg, d.cfg.IPTablesVariant)
	for _, p := range placesOf(ctx, d.cfg, variantsOf(ctx, d.cfg, everyVariant()...)) {
		if p.is(d.cfg, own) {
			continue
		}
		if err := p.clear(ctx, d.cfg); err != nil && ctx.Err() == nil {
			d.log.WithError(err).Warnf("Rules of a former run in another mode stay: %s", p.what)
		}
	}
	return nil
}

// place is somewhere on the host where a portald of this proxy name may have rules.
type place struct {
	what     string
	facility string
	variant  string // of iptables
	names    trace
	holds    func(context.Context) (bool, error) // rules that portald wrote
	remove   func(context.Context) error
}

// is tells whether it is where a daemon of that configuration, which has that variant of iptables, writes, or a part of it.
func (p place) is(cfg *config.Config, variant string) bool {
	return p.names == traceOf(cfg) && (p.facility == cfg.Writer || p.facility == byIPTables && cfg.Writer == byIPVS) &&
		(p.variant == variant || p.facility != byIPTables)
}

// clear removes what is there. Names of kube-proxy's are touched only if portald wrote what has them, or takes kube-proxy's
// place.
func (p place) clear(ctx context.Context, cfg *config.Config) error {
	ours := p.names.chains != kubeChains || alone(cfg) && cfg.Mode == service.ModeKernel
	if !ours {
		held, err := p.holds(ctx)
		if err != nil || !held {
			return err
		}
	}
	if err := p.remove(ctx); err != nil {
		return fmt.Errorf("%s: %w", p.what, err)
	}
	return nil
}

// variant is one of iptables that the host has: nft or legacy, and what its commands are called by.
type variant struct{ is, name string }

// variantsOf are those of a host: rules in both count, whichever it calls iptables.
func variantsOf(ctx context.Context, cfg *config.Config, names ...string) (out []variant) {
	for _, name := range names {
		is := variantOf(ctx, cfg, name)
		if is != "" && !slices.ContainsFunc(out, func(v variant) bool { return v.is == is }) {
			out = append(out, variant{is, name})
		}
	}
	return out
}

// everyVariant is what commands may be called by: a host that has one variant alone may have no longer names.
func everyVariant() []string { return []string{"nft", "legacy", ""} }

// variantOf tells which variant the commands of that name are, empty if there are none.
func variantOf(ctx context.Context, cfg *config.Config, name string) string {
	variant, err := iptables.VariantOf(ctx, optionsIn(cfg, traceOf(cfg), name))
	if err != nil {
		return ""
	}
	return variant
}

func optionsIn(cfg *config.Config, n trace, variant string) iptables.Options {
	of := *cfg
	of.IPTablesVariant = variant
	return iptablesOptions(&of, n, told{log: silent()})
}

// placesOf are those in facilities that the host has, and in these variants of iptables where there is something: a writer
// of iptables makes tables where a host has none.
func placesOf(ctx context.Context, cfg *config.Config, variants []variant) (out []place) {
	quiet := told{log: silent()}
	for _, n := range tracesOf(cfg) {
		tables, written := inIPTables(ctx, cfg, n, variants)
		if ipvs.Present(n.chains) { // before the rules that name its sets, among which are those that tell whose it is
			if w, err := newIPVS(cfg, n, quiet); err == nil {
				out = append(out, place{"IPVS " + n.chains, byIPVS, "", n, holds(written), w.Cleanup})
			}
		}
		out = append(out, tables...)
		if w, err := nftables.New(nftablesOptions(cfg, n, quiet)); err == nil {
			out = append(out, place{"nftables " + n.table, byNFTables, "", n, w.Present, w.Cleanup})
		}
	}
	return out
}

// inIPTables are the places in variants of iptables that have chains with such names, and whether portald wrote any.
func inIPTables(ctx context.Context, cfg *config.Config, n trace, variants []variant) (out []place, written bool) {
	for _, v := range variants {
		o := optionsIn(cfg, n, v.name)
		found, err := iptables.Look(ctx, o)
		if err != nil || !found.Chains {
			continue
		}
		written = written || found.Written
		if w, err := iptables.New(o); err == nil {
			out = append(out, place{"iptables-" + v.is + " " + n.chains, byIPTables, v.is, n, holds(found.Written), w.Cleanup})
		}
	}
	return out, written
}

func holds(written bool) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) { return written, nil }
}

// silent is for what is no concern of the reader.
func silent() *logrus.Logger {
	log := logrus.New()
	log.SetLevel(logrus.PanicLevel)
	return log
}

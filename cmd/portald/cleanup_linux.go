package main

import (
	"context"
	"errors"
	"fmt"

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
	variants := []string{cfg.IPTablesVariant}
	if cfg.IPTablesVariant == "" {
		variants = []string{"nft", "legacy"}
	}
	places := placesOf(cfg, variants)
	for _, p := range places {
		errs = append(errs, p.clear(ctx, cfg))
	}
	if len(places) == 0 {
		_, err := newWriter(cfg, traceOf(cfg), told{log: log})
		return err
	}
	return errors.Join(append(errs, families(traceOf(cfg).divert.Remove))...)
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
	for _, p := range placesOf(d.cfg, []string{d.cfg.IPTablesVariant}) {
		if p.is(d.cfg) {
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
	names    trace
	holds    func(context.Context) (bool, error) // rules that portald wrote
	remove   func(context.Context) error
}

// is tells whether it is where a daemon of that configuration writes, or a part of it.
func (p place) is(cfg *config.Config) bool {
	return p.names == traceOf(cfg) && (p.facility == cfg.Writer || p.facility == byIPTables && cfg.Writer == byIPVS)
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

// placesOf are those in facilities that the host has, and in these variants of iptables: to look at one makes its tables,
// where a host has none.
func placesOf(cfg *config.Config, variants []string) (out []place) {
	quiet := told{log: silent()}
	for _, n := range tracesOf(cfg) {
		if ipvs.Present(n.chains) { // before the rules that name its sets
			if w, err := newIPVS(cfg, n, quiet); err == nil {
				out = append(out, place{"IPVS " + n.chains, byIPVS, n, func(context.Context) (bool, error) { return true, nil }, w.Cleanup})
			}
		}
		for _, variant := range variants {
			of := *cfg
			of.IPTablesVariant = variant
			if w, err := iptables.New(iptablesOptions(&of, n, quiet)); err == nil {
				out = append(out, place{"iptables-" + variant + " " + n.chains, byIPTables, n, w.Present, w.Cleanup})
			}
		}
		if w, err := nftables.New(nftablesOptions(cfg, n, quiet)); err == nil {
			out = append(out, place{"nftables " + n.table, byNFTables, n, w.Present, w.Cleanup})
		}
	}
	return out
}

// silent is for what is no concern of the reader.
func silent() *logrus.Logger {
	log := logrus.New()
	log.SetLevel(logrus.PanicLevel)
	return log
}

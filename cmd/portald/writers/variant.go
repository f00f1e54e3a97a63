package writers

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal/iptables"
)

// ChooseVariant returns the configuration with the variant of iptables that its writer is to use on this host, and logs
// which and why. Without a writer of iptables, or if the host has no commands of it, it is the configuration as it was.
func ChooseVariant(ctx context.Context, cfg *config.Config, log logrus.FieldLogger) *config.Config {
	if cfg.Writer != IPTables && cfg.Writer != IPVS {
		return cfg
	}
	c, err := iptables.Choose(ctx, variantOptions(cfg, NamesOf(cfg), cfg.IPTablesVariant))
	if err != nil {
		return cfg // New says what is wrong
	}
	log.Infof("Writing rules with iptables-%s: %s", c.Kind, c.Why)
	for _, w := range c.Warnings {
		log.Warnf("Two variants of iptables are in use: %s", w)
	}
	out := *cfg
	out.IPTablesVariant = c.Variant
	return &out
}

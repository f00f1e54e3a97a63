package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal/iptables"
)

// newWriter makes the writer that the configuration asks for.
func newWriter(cfg *config.Config, log logrus.FieldLogger, o iptables.Options) (*iptables.Writer, error) {
	o.Prefix = traceOf(cfg.ServiceProxyName).chains
	o.Variant, o.ProxyPorts = cfg.IPTablesVariant, [2]uint16{cfg.ProxyPorts.First, cfg.ProxyPorts.Last}
	o.ProxyAddresses, o.Log = cfg.NodeIPs, log.Warnf
	w, err := iptables.New(o)
	if err != nil {
		return nil, fmt.Errorf("%w: portald needs the package iptables and the capability NET_ADMIN (root has it)", err)
	}
	return w, nil
}

// cleanup removes what any run of portald left on the host.
func cleanup(ctx context.Context, cfg *config.Config, log *logrus.Logger) error {
	variants := []string{cfg.IPTablesVariant}
	if cfg.IPTablesVariant == "" {
		variants = []string{"nft", "legacy"}
	}
	var missing []error
	for _, variant := range variants {
		of := *cfg
		of.IPTablesVariant = variant
		w, err := newWriter(&of, log, iptables.Options{})
		if err != nil {
			missing = append(missing, err)
			continue
		}
		if err := w.Cleanup(ctx); err != nil {
			return err
		}
	}
	if len(missing) == len(variants) {
		return errors.Join(missing...)
	}
	return families(traceOf(cfg.ServiceProxyName).divert.Remove)
}

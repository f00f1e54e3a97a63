package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/proxy"
	"github.com/portald/portald/proxy/service"
)

// apply takes in settings that changed while the daemon runs.
func (d *daemon) apply(s config.Settings) {
	d.settings.Store(&s)
	d.log.SetLevel(s.LogLevel)
	d.engine.SetPolicy(s.Policy)
	d.applyAnew() // for what follows from the policy on the host
}

// setVerbosity takes a number as --v does.
func (d *daemon) setVerbosity(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("%q: must be a number from 0 on", text)
	}
	d.log.SetLevel(config.LevelOf(n))
	return nil
}

// showClients prepares the host for endpoints that see clients' own addresses, once any Service asks for that: the rules
// are in the way of every packet, so they stand only where they are of use. They stay to the end.
func (d *daemon) showClients(s proxy.Sync) {
	if d.writer.Marks() || !d.anyTransparent(s) {
		return
	}
	divert := traceOf(d.cfg.ServiceProxyName).divert
	if err := families(divert.Add); err != nil {
		d.log.WithError(err).Warn("Endpoints see this node's address, whatever Services ask for")
		return
	}
	d.writer.SetMark(divert.Mark)
	d.log.Info("Endpoints see clients' own addresses where Services ask for that; replies are led back here")
	d.applyAnew()
}

func (d *daemon) anyTransparent(s proxy.Sync) bool {
	defaults := d.settings.Load().Policy
	asks := func(p *service.Port) bool {
		return p != nil && p.Policy.Or(defaults).ClientAddress == service.AddressTransparent
	}
	return slices.ContainsFunc(s.Ports, asks) ||
		slices.ContainsFunc(s.Changes, func(c service.Change) bool { return asks(c.Port) })
}

// synced is told of each round of changes that was applied.
func (d *daemon) synced(s proxy.Sync) {
	d.health.Updated()
	d.metrics.Synced(s.Full, s.Start, s.End)
	d.metrics.Programmed(s.Triggered, s.End)
	if s.Full {
		d.services.Replace(s.Ports)
		d.metrics.ReplacePolicies(s.Ports)
	} else {
		d.services.Update(s.Changes)
		d.metrics.UpdatePolicies(s.Changes)
	}
	d.showClients(s)
	d.saySynced(s, d.log.WithField("took", s.End.Sub(s.Start).Round(time.Microsecond)))
}

func (d *daemon) saySynced(s proxy.Sync, entry *logrus.Entry) {
	switch {
	case !s.Full:
		entry.Debug("Changes were applied")
	case d.ready.CompareAndSwap(false, true):
		entry.Info("Ready: all service ports are served")
		d.events.Starting()
	default:
		entry.Info("All was applied anew")
	}
}

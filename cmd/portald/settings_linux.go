package main

import (
	"fmt"
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
	d.core.SetPolicy(s.Policy)
	if s.Policy.ClientAddress == service.AddressTransparent {
		d.diverted.Do(func() {
			d.divert()
			d.applyAnew()
		})
	}
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

// serving is told of service ports that are about to be served; at the start all are, and all is written then.
func (d *daemon) serving(p *service.Port) {
	if p.Policy.Or(d.settings.Load().Policy).ClientAddress != service.AddressTransparent {
		return
	}
	d.diverted.Do(func() {
		d.divert()
		if d.ready.Load() {
			d.applyAnew()
		}
	})
}

// divert has replies to clients' own addresses led back here, once any Service asks for that: the rules are in the way of
// every packet, so they stand only where they are of use. They stay to the end. It takes effect when all is written anew.
func (d *daemon) divert() {
	divert := traceOf(d.cfg).divert
	err := divert.Add(service.IPv4)
	if err == nil && d.writer.IPv6() {
		err = divert.Add(service.IPv6)
	}
	if err != nil {
		d.log.WithError(err).Warn("Endpoints see this node's address, whatever Services ask for")
		return
	}
	d.writer.SetMark(divert.Mark)
	d.log.Info("Endpoints see clients' own addresses where Services ask for that; replies are led back here")
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
	d.saySynced(s, d.log.WithField("took", s.End.Sub(s.Start).Round(time.Microsecond)))
}

func (d *daemon) saySynced(s proxy.Sync, entry *logrus.Entry) {
	switch {
	case !s.Full:
		entry.Debug("Changes were applied")
	case d.ready.CompareAndSwap(false, true):
		entry.Info("Ready: all service ports are served")
		d.events.Starting()
		close(d.stands)
	default:
		entry.Info("All was applied anew")
	}
}

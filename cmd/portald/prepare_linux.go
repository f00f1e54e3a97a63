package main

import (
	"errors"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform"
)

// prepare sets what is the host's. It is all of --init-only, after which the daemon needs no root.
func prepare(cfg *config.Config, log logrus.FieldLogger) error {
	return errors.Join(prepareFlows(cfg, log), prepareSockets(log))
}

// prepareFlows sets the table of flows.
func prepareFlows(cfg *config.Config, log logrus.FieldLogger) error {
	c := cfg.Conntrack
	changed, err := platform.Conntrack{
		Max:            platform.ConntrackMax(c.MaxPerCore, c.Min, platform.CPUs()),
		TCPEstablished: c.TCPEstablished, TCPCloseWait: c.TCPCloseWait,
		UDP: c.UDP, UDPStream: c.UDPStream, TCPBeLiberal: c.TCPBeLiberal,
	}.Apply()
	for _, what := range changed {
		log.Infof("Set %s", what)
	}
	return err
}

// prepareSockets has redirected connections find their own sockets.
func prepareSockets(log logrus.FieldLogger) error {
	changed, err := platform.SpareEarlyDemux()
	if changed != "" {
		log.Infof("Set %s: this kernel may take a redirected connection for another of that client", changed)
	}
	return err
}

// Package answers collects what the admin API shows of a running daemon: services, endpoints, connections, and why one
// is treated as it is. It has no server, and changes only what the API may: drains, and the level of the log.
package answers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/splice"
)

// Options are the parts of a daemon that answer.
type Options struct {
	Info      func() adminsocket.Info
	Core      *splice.Core
	Flows     *flows.Recorder
	Records   *connlog.Stream
	Inventory *Inventory
	Explainer *Explainer
	Log       *logrus.Logger
}

// NewHandler returns the handler of the admin API, which reads the state of the parts at each request.
func NewHandler(o Options) *adminsocket.Handler {
	carried, byKernel := userspaceConnections{o.Core}, kernelConnections{o.Flows, o.Log}
	return adminsocket.NewHandler(adminsocket.Daemon{
		Info:        o.Info,
		Connections: carried.all,
		Kernel:      byKernel.all,
		AddTCP:      carried.addTCP,
		Records:     o.Records,
		Services:    o.Inventory.services,
		Endpoints:   o.Inventory.endpoints,
		Drain:       o.Inventory.drain,
		Undrain:     o.Inventory.undrain,
		Cut:         o.Core.Cut,
		SetLogLevel: logLevel{o.Log}.set,
		Explain:     o.Explainer.explain,
	})
}

// logLevel changes the level of the log.
type logLevel struct{ log *logrus.Logger }

// set sets the level of the log until the configuration changes.
func (l logLevel) set(text string) error {
	levels := []string{"error", "warn", "info", "debug", "trace"}
	level, err := logrus.ParseLevel(text)
	if err != nil || !slices.Contains(levels, text) {
		return fmt.Errorf("must be one of %s", strings.Join(levels, ", "))
	}
	l.log.SetLevel(level)
	return nil
}

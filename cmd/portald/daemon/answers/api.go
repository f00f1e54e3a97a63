// Package answers collects what the admin API shows of a running daemon: services, endpoints, connections, and why one
// is treated as it is. It has no server, and changes only what the API may: drains, and the level of the log.
package answers

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/connlog/logfiles"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/splice"
)

// Options are the parts of a daemon that answer.
type Options struct {
	Info      func() adminsocket.Info
	Core      *splice.Core
	Flows     *flows.Recorder
	Records   *connlog.Stream
	Files     logfiles.Log // of the connection log
	Changes   *changes.Log
	Inventory *Inventory
	Explainer *Explainer
	Log       *logrus.Logger

	Configuration func() any // that is in force, without secrets
	Metrics       http.Handler
	Own           func(netip.Addr) bool // whether an address is this host's
}

// NewHandler returns the handler of the admin API, which reads the state of the parts at each request.
func NewHandler(o Options) *adminsocket.Handler {
	carried, byKernel := userspaceConnections{o.Core, o.Inventory.endpointStates},
		kernelConnections{o.Flows, o.Inventory.endpointStates, o.Log}
	return adminsocket.NewHandler(adminsocket.Daemon{
		Info:        o.Info,
		Connections: carried.all,
		Kernel:      byKernel.all,
		AddTCP:      carried.addTCP,
		Records:     o.Records,
		Files:       o.Files,
		Changes:     o.Changes,
		Services:    o.Inventory.services,
		Endpoints:   o.Inventory.endpoints,
		Drain:       o.Inventory.drain,
		Undrain:     o.Inventory.undrain,
		Cut:         o.Core.Cut,
		SetLogLevel: logLevel{o.Log, o.Changes}.set,
		Explain:     o.Explainer.explain,

		Configuration: o.Configuration,
		Metrics:       o.Metrics,
		Flip:          o.Explainer.flip,
		Capture:       capturer{&o}.capture,
		Payload:       o.Core.Payload.Content,
	})
}

// logLevel changes the level of the log.
type logLevel struct {
	log     *logrus.Logger
	changes *changes.Log
}

// set sets the level of the log until the configuration changes.
func (l logLevel) set(text string) error {
	levels := []string{"error", "warn", "info", "debug", "trace"}
	level, err := logrus.ParseLevel(text)
	if err != nil || !slices.Contains(levels, text) {
		return fmt.Errorf("must be one of %s", strings.Join(levels, ", "))
	}
	SetLogLevel(l.log, level, l.changes)
	return nil
}

// SetLogLevel sets the level of a log, and notes it in the history if it is another.
func SetLogLevel(log *logrus.Logger, level logrus.Level, history *changes.Log) {
	old := log.GetLevel()
	log.SetLevel(level)
	if level != old {
		history.Add(changes.Change{Kind: changes.LogLevelChanged, What: "level of the log of portald",
			Old: old.String(), New: level.String()})
	}
}

package daemon

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/cmd/portald/daemon/parts"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/connlog/otlp"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// telemetry takes what the data path reports: metrics, the last records, the connection log, warnings of shortages. It
// exports records and the history.
type telemetry struct {
	*parts.Stage
	metrics   *metrics.Metrics
	stream    *connlog.Stream    // the last records, of all carriers
	logged    *connlog.Selection // of records for the connection log and the export; nil without either
	shortages *shortages
}

func newTelemetry(
	cfg *config.Config, history *changes.Log, log *logrus.Logger, version string,
) (*telemetry, error) {
	m := metrics.NewMetrics(metrics.DefaultLimits(), "IPv4", "IPv6")
	short := newShortages(log, m)
	runs := []func(context.Context) error{short.run}
	var sinks []connlog.Sink
	for _, open := range []func() (connlog.Sink, func(context.Context) error, error){
		func() (connlog.Sink, func(context.Context) error, error) { return openLog(cfg, m, log) },
		func() (connlog.Sink, func(context.Context) error, error) {
			return openExport(cfg, history, m, log, version)
		},
	} {
		sink, run, err := open()
		if err != nil {
			return nil, err
		}
		if sink != nil {
			sinks, runs = append(sinks, sink), append(runs, run)
		}
	}
	t := &telemetry{
		Stage: parts.NewStage(runs...), metrics: m, stream: connlog.NewStream(connlog.DefaultStream), shortages: short,
	}
	if len(sinks) > 0 {
		t.logged = connlog.NewSelection(cfg.Settings.Events.Events, sinks...)
		m.WatchSampling(t.logged.SampledOut)
	}
	return t, nil
}

// openLog opens the connection log, nil if none is configured.
func openLog(
	cfg *config.Config, m *metrics.Metrics, log *logrus.Logger,
) (connlog.Sink, func(context.Context) error, error) {
	to := cfg.ConnectionLog
	if to.Path == "" {
		return nil, nil, nil
	}
	file, err := connlog.NewLog(connlog.Options{Path: to.Path, Format: to.Format, Rotate: to.Rotation, Log: log})
	if err != nil {
		return nil, nil, err
	}
	m.WatchLog(file.Dropped, file.WriteErrors)
	return file, file.Run, nil
}

// openExport opens the export of records and changes by OTLP, nil if none is configured.
func openExport(
	cfg *config.Config, history *changes.Log, m *metrics.Metrics, log *logrus.Logger, version string,
) (connlog.Sink, func(context.Context) error, error) {
	to := cfg.ConnectionLog.OTLP
	o := otlp.Options{
		Endpoint: to.Endpoint.Reveal(), Headers: to.Headers, CAFile: to.CAFile, CertFile: to.CertFile, KeyFile: to.KeyFile,
		Node: cfg.NodeName, Version: version, Log: log,
	}
	if !o.Configured() {
		return nil, nil, nil
	}
	if to.Changes {
		o.Changes = history
	}
	export, err := otlp.New(o)
	if err != nil {
		return nil, nil, err
	}
	m.WatchExport(export.Dropped, export.ChangesDropped, export.Errors)
	return export, export.Run, nil
}

// observer implements splice.Options.Observe.
func (t *telemetry) observer(name service.PortName) record.Observer {
	return t.metrics.Observer(name, t)
}

// Observe implements record.Observer, for records of all carriers.
func (t *telemetry) Observe(r *record.Record) {
	t.metrics.Waited(r)
	t.stream.Observe(r)
	if t.logged != nil {
		t.logged.Observe(r)
	}
}

// kernelRecord takes a record of a connection that the kernel carried.
func (t *telemetry) kernelRecord(r *record.Record) {
	t.metrics.KernelEnded(r)
	t.Observe(r)
}

// connectionEvents logs the events of open connections that the settings ask for. Nil: nothing is logged.
type connectionEvents struct {
	*parts.Stage
	events *connlog.Events
}

func newConnectionEvents(core *splice.Core, to *connlog.Selection, s config.Settings) *connectionEvents {
	if to == nil {
		return nil
	}
	events := connlog.NewEvents(core, to, s.Events)
	return &connectionEvents{parts.NewStage(events.Run), events}
}

// Start implements parts.Part.
func (e *connectionEvents) Start(failed context.CancelCauseFunc) {
	if e != nil {
		e.Stage.Start(failed)
	}
}

// Stop implements parts.Part.
func (e *connectionEvents) Stop() error {
	if e == nil {
		return nil
	}
	return e.Stage.Stop()
}

// applySettings applies settings that changed.
func (e *connectionEvents) applySettings(s config.Settings) {
	if e != nil {
		e.events.Set(s.Events)
	}
}

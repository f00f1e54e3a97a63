package daemon

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/connlog/otlp"
	"github.com/portald/portald/proxy/metrics"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/splice"
)

// telemetry is what the data path reports to: metrics, the last records, the connection log, and warnings of shortages.
type telemetry struct {
	*stage
	metrics   *metrics.Metrics
	stream    *connlog.Stream    // the last records, of all carriers
	sinks     []connlog.Sink     // the connection log and the export, as far as they are asked for
	logged    *connlog.Selection // of records for these; nil without any
	events    *connlog.Events    // of userspace connections; nil as logged
	shortages *shortages
}

func newTelemetry(cfg *config.Config, log *logrus.Logger, version string) (*telemetry, error) {
	t := &telemetry{
		metrics: metrics.NewMetrics(metrics.DefaultLimits(), "IPv4", "IPv6"),
		stream:  connlog.NewStream(connlog.DefaultStream),
	}
	t.shortages = newShortages(log, t.metrics)
	t.stage = newStage(t.shortages.run)
	if err := t.openLog(cfg, log); err != nil {
		return nil, err
	}
	if err := t.openExport(cfg, log, version); err != nil {
		return nil, err
	}
	if len(t.sinks) == 0 {
		return t, nil
	}
	t.logged = connlog.NewSelection(cfg.Settings.Events.Events, t.sinks...)
	t.metrics.WatchSampling(t.logged.SampledOut)
	t.runs = append(t.runs, func(ctx context.Context) error { return t.events.Run(ctx) })
	return t, nil
}

// openLog opens the connection log.
func (t *telemetry) openLog(cfg *config.Config, log *logrus.Logger) error {
	to := cfg.ConnectionLog
	if to.Path == "" {
		return nil
	}
	file, err := connlog.NewLog(connlog.Options{Path: to.Path, Format: to.Format, Rotate: to.Rotation, Log: log})
	if err != nil {
		return err
	}
	t.metrics.WatchLog(file.Dropped, file.WriteErrors)
	t.sinks, t.runs = append(t.sinks, file), append(t.runs, file.Run)
	return nil
}

// openExport opens the export of records by OTLP.
func (t *telemetry) openExport(cfg *config.Config, log *logrus.Logger, version string) error {
	to := cfg.ConnectionLog.OTLP
	o := otlp.Options{
		Endpoint: to.Endpoint.Reveal(), Headers: to.Headers, CAFile: to.CAFile, CertFile: to.CertFile, KeyFile: to.KeyFile,
		Node: cfg.NodeName, Version: version, Log: log,
	}
	if !o.Configured() {
		return nil
	}
	export, err := otlp.New(o)
	if err != nil {
		return err
	}
	t.metrics.WatchExport(export.Dropped, export.Errors)
	t.sinks, t.runs = append(t.sinks, export), append(t.runs, export.Run)
	return nil
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

// watch has the events of the core's connections logged that the settings ask for.
func (t *telemetry) watch(core *splice.Core, s config.Settings) {
	if t.logged != nil {
		t.events = connlog.NewEvents(core, t.logged, s.Events)
	}
}

// applySettings applies settings that changed.
func (t *telemetry) applySettings(s config.Settings) {
	if t.events != nil {
		t.events.Set(s.Events)
	}
}

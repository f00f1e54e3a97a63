// Package otlp exports connection records and the node's changes as logs, to an OpenTelemetry collector by OTLP over
// HTTP. It does not know which records are exported, and never delays traffic: what a collector does not take in time
// is dropped, counted and told.
package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"

	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/secret"
)

const (
	defaultBuffer = 1 << 14          // reports, as in the connection log; and changes
	batchTime     = time.Second      // how long a report waits for others
	batchSize     = 512              // of one request: the batch size of OpenTelemetry's SDKs
	exportTime    = 30 * time.Second // for one batch, retries included
	finishTime    = 5 * time.Second  // for what is left at the end
)

// Options of an Exporter. For options that are not set, the environment variables OTEL_EXPORTER_OTLP_* of
// OpenTelemetry's specification apply.
type Options struct {
	Endpoint string          // URL of the collector, such as https://collector:4318; empty: by the environment
	Headers  []secret.Header // of requests
	CAFile   string          // PEM certificates that sign the collector's; empty: the system's
	CertFile string          // PEM, of this client, with KeyFile
	KeyFile  string

	Changes *changes.Log // what is added to it after New is exported too; nil: no changes are

	Node, Version string             // what sends the records: this node, this portald
	Buffer        int                // reports that may wait for the collector, and as many changes; 0 = 16,384
	Log           logrus.FieldLogger // the daemon's own log; not nil
}

// Configured tells whether there is a collector to export to, by the options or by the environment.
func (o *Options) Configured() bool {
	return o.Endpoint != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
		os.Getenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT") != ""
}

// Exporter sends reports, and changes, to a collector. It implements connlog.Sink.
type Exporter struct {
	reports *connlog.Queue[connlog.Report]
	changes *connlog.Queue[changes.Change] // of their own: many records do not push out a change
	history *changes.Log                   // nil: no changes are exported
	begin   uint64                         // the position in it from which on they are
	to      *client
	log     logrus.FieldLogger
	errors  atomic.Uint64

	// Owned by Run.
	encoder *encoder
	failing bool
	loss    loss
}

// New makes an exporter. Nothing is sent before Run.
func New(o Options) (*Exporter, error) {
	var env environment
	to, err := o.settings(&env)
	if err != nil {
		return nil, fmt.Errorf("export connection records: %w", err)
	}
	encoder := newEncoder(o.Node, o.Version, env.resource())
	if env.unread > 0 { // the error shows the value
		o.Log.Warn("Ignored an environment variable OTEL_EXPORTER_OTLP_*: cannot parse its value, which may be " +
			"secret and is not shown; headers are NAME=VALUE, separated by commas")
	}
	if o.Buffer <= 0 {
		o.Buffer = defaultBuffer
	}
	e := &Exporter{
		reports: connlog.NewQueue[connlog.Report](o.Buffer), changes: connlog.NewQueue[changes.Change](o.Buffer),
		history: o.Changes, to: newClient(to, o.Version), log: o.Log, encoder: encoder,
	}
	if e.history != nil {
		e.begin = e.history.Position()
	}
	return e, nil
}

// settings are how requests are sent: as the environment says what the options leave open.
func (o *Options) settings(env *environment) (settings, error) {
	s := env.settings()
	if o.Endpoint != "" {
		if err := s.setURL(o.Endpoint, logsPath); err != nil {
			return s, errors.New("connectionLog.otlp.endpoint must be a URL, such as https://collector:4318")
		}
	}
	if len(o.Headers) > 0 {
		s.header = http.Header{}
	}
	for _, h := range o.Headers {
		name, value, _ := strings.Cut(h.Reveal(), "=")
		s.header.Set(name, value)
	}
	files := tlsFiles{o.CAFile, o.CertFile, o.KeyFile}
	config, err := files.config()
	if config != nil {
		s.tls = config
	}
	return s, err
}

// tlsFiles name PEM files: certificates that sign the collector's, and this client's certificate, with its key.
type tlsFiles struct{ ca, cert, key string }

// config is nil without files.
func (f tlsFiles) config() (*tls.Config, error) {
	if f.ca == "" && f.cert == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: there is no certificate in it", f.ca)
		}
	}
	if f.cert != "" {
		own, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// Put implements connlog.Sink. It never blocks.
func (e *Exporter) Put(r connlog.Report) { e.reports.Put(r) }

// Dropped returns the number of reports that the collector did not get.
func (e *Exporter) Dropped() uint64 { return e.reports.Dropped() }

// ChangesDropped returns the number of changes that the collector did not get.
func (e *Exporter) ChangesDropped() uint64 { return e.changes.Dropped() }

// Errors returns the number of batches that failed.
func (e *Exporter) Errors() uint64 { return e.errors.Load() }

// Run exports until ctx ends, then what is left, for a few seconds at most. It is called once.
func (e *Exporter) Run(ctx context.Context) error {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, func() { time.AfterFunc(finishTime, stop) })
	followed := make(chan struct{})
	go func() {
		e.follow(ctx)
		close(followed)
	}()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-e.reports.Ready():
		case <-e.changes.Ready():
		}
		e.reports.Gather(ctx, batchTime)
		e.export(sending)
		e.tellLoss(false)
	}
	<-followed
	e.reports.Close()
	e.export(sending)
	e.tellLoss(true)
	e.to.http.CloseIdleConnections()
	return nil
}

// export sends all that waits. Changes go first: they are few.
func (e *Exporter) export(ctx context.Context) {
	sendAll(ctx, e, e.changes, e.encoder.changes)
	sendAll(ctx, e, e.reports, e.encoder.reports)
}

// sendAll sends all that waits in a queue, in batches. A batch that fails is dropped: the client has tried again.
func sendAll[T any](
	ctx context.Context, e *Exporter, from *connlog.Queue[T], encode func([]T) *collector.ExportLogsServiceRequest,
) {
	waiting := from.Take()
	for start := 0; start < len(waiting); start += batchSize {
		batch := waiting[start:min(start+batchSize, len(waiting))]
		within, cancel := context.WithTimeout(ctx, exportTime)
		refused, err := e.to.export(within, encode(batch))
		cancel()
		if err != nil {
			from.Drop(len(batch))
		}
		clear(batch)
		if refused != "" {
			e.log.Debugf("The collector has refused %s", refused)
		}
		e.report(err)
	}
}

// report counts an error, and logs when such errors begin and when they end.
func (e *Exporter) report(err error) {
	switch {
	case err != nil && !e.failing:
		e.log.WithError(err).Warn("Cannot export connection records and changes: those are dropped, traffic goes on")
	case err == nil && e.failing:
		e.log.Info("Can export connection records and changes again")
	}
	if err != nil {
		e.errors.Add(1)
	}
	e.failing = err != nil
}

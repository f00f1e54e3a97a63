// Package otlp exports connection records as logs, to an OpenTelemetry collector by OTLP over HTTP. It does not know
// which records are exported, and never delays traffic: what a collector does not take in time is dropped and counted.
package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"

	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/secret"
)

const (
	defaultBuffer = 1 << 14          // reports, as in the connection log
	batchTime     = time.Second      // how long a report waits for others
	batchSize     = 512              // reports of one request: the batch size of OpenTelemetry's SDKs
	exportTime    = 30 * time.Second // for one batch, retries included
	finishTime    = 5 * time.Second  // for what is left at the end
)

// Options of an Exporter. What they leave open is as the environment variables OTEL_EXPORTER_OTLP_* say, which
// OpenTelemetry's specification names.
type Options struct {
	Endpoint string          // URL of the collector, such as https://collector:4318; empty: by the environment
	Headers  []secret.Header // of requests
	CAFile   string          // PEM certificates that sign the collector's; empty: those of the system
	CertFile string          // PEM, of this client, with KeyFile
	KeyFile  string

	Node, Version string             // what sends the records: this node, this portald
	Buffer        int                // reports that may wait for the collector; 0 = 16,384
	Log           logrus.FieldLogger // the daemon's own log; not nil
}

// Configured tells whether there is a collector to export to, by the options or by the environment.
func (o *Options) Configured() bool {
	return o.Endpoint != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
		os.Getenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT") != ""
}

// Exporter sends reports to a collector. It implements records.Sink.
type Exporter struct {
	queue  *connlog.Queue
	to     *otlploghttp.Exporter
	log    logrus.FieldLogger
	errors atomic.Uint64

	// Owned by Run.
	encoder *encoder
	failing bool
}

// New makes an exporter. Nothing is sent before Run.
func New(o Options) (*Exporter, error) {
	options, err := o.transport()
	if err != nil {
		return nil, fmt.Errorf("export connection records: %w", err)
	}
	unread := 0
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { unread++ }))
	to, err := otlploghttp.New(context.Background(), options...)
	if err != nil {
		return nil, fmt.Errorf("export connection records: %w", err)
	}
	if unread > 0 { // the error shows the value
		o.Log.Warn("Ignored an environment variable OTEL_EXPORTER_OTLP_*: cannot parse its value, which may be " +
			"secret and is not shown; headers are NAME=VALUE, separated by commas")
	}
	if o.Buffer <= 0 {
		o.Buffer = defaultBuffer
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { // of what a collector refuses of a batch
		o.Log.WithError(err).Debug("OpenTelemetry")
	}))
	return &Exporter{
		queue: connlog.NewQueue(o.Buffer), to: to, log: o.Log, encoder: newEncoder(o.Node, o.Version),
	}, nil
}

// transport is how requests are sent.
func (o *Options) transport() (out []otlploghttp.Option, err error) {
	if o.Endpoint != "" {
		out = append(out, otlploghttp.WithEndpointURL(strings.TrimSuffix(o.Endpoint, "/")+"/v1/logs"))
	}
	if len(o.Headers) > 0 {
		headers := map[string]string{}
		for _, h := range o.Headers {
			name, value, _ := strings.Cut(h.Reveal(), "=")
			headers[name] = value
		}
		out = append(out, otlploghttp.WithHeaders(headers))
	}
	if o.CAFile == "" && o.CertFile == "" {
		return out, nil
	}
	config, err := o.tls()
	return append(out, otlploghttp.WithTLSClientConfig(config)), err
}

func (o *Options) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: there is no certificate in it", o.CAFile)
		}
	}
	if o.CertFile != "" {
		own, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// Put implements records.Sink. It never blocks.
func (e *Exporter) Put(r connlog.Report) { e.queue.Put(r) }

// Dropped returns the number of reports that the collector did not get.
func (e *Exporter) Dropped() uint64 { return e.queue.Dropped() }

// Errors returns the number of batches that failed.
func (e *Exporter) Errors() uint64 { return e.errors.Load() }

// Run exports until ctx ends, then what is left, for a few seconds at most. It is called once.
func (e *Exporter) Run(ctx context.Context) error {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, func() { time.AfterFunc(finishTime, stop) })
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-e.queue.Ready():
			e.queue.Gather(ctx, batchTime)
			e.export(sending)
		}
	}
	e.queue.Close()
	e.export(sending)
	_ = e.to.Shutdown(sending) // it has nothing left to send
	return nil
}

// export sends all queued reports, in batches. A batch that fails is dropped: the collector's library has tried again.
func (e *Exporter) export(ctx context.Context) {
	waiting := e.queue.Take()
	for start := 0; start < len(waiting); start += batchSize {
		batch := waiting[start:min(start+batchSize, len(waiting))]
		within, cancel := context.WithTimeout(ctx, exportTime)
		err := e.to.Export(within, e.encoder.encode(batch))
		cancel()
		clear(batch)
		if err != nil {
			e.queue.Drop(len(batch))
		}
		e.report(err)
	}
}

// report counts an error, and logs when such errors begin and when they end.
func (e *Exporter) report(err error) {
	switch {
	case err != nil && !e.failing:
		e.log.WithError(err).Warn("Cannot export connection records: those are dropped, traffic goes on")
	case err == nil && e.failing:
		e.log.Info("Can export connection records again")
	}
	if err != nil {
		e.errors.Add(1)
	}
	e.failing = err != nil
}

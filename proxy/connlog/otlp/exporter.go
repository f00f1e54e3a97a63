// Package otlp exports connection records as logs, to an OpenTelemetry collector by OTLP over HTTP. It does not know
// which records are exported, and never delays traffic: what a collector does not take in time is dropped and counted.
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

// Options of an Exporter. For options that are not set, the environment variables OTEL_EXPORTER_OTLP_* of
// OpenTelemetry's specification apply.
type Options struct {
	Endpoint string          // URL of the collector, such as https://collector:4318; empty: by the environment
	Headers  []secret.Header // of requests
	CAFile   string          // PEM certificates that sign the collector's; empty: the system's
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
	to     *client
	log    logrus.FieldLogger
	errors atomic.Uint64

	// Owned by Run.
	encoder *encoder
	failing bool
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
	return &Exporter{
		queue: connlog.NewQueue(o.Buffer), to: newClient(to, o.Version), log: o.Log, encoder: encoder,
	}, nil
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
	e.to.http.CloseIdleConnections()
	return nil
}

// export sends all queued reports, in batches. A batch that fails is dropped: the client has tried again.
func (e *Exporter) export(ctx context.Context) {
	waiting := e.queue.Take()
	for start := 0; start < len(waiting); start += batchSize {
		batch := waiting[start:min(start+batchSize, len(waiting))]
		within, cancel := context.WithTimeout(ctx, exportTime)
		refused, err := e.to.export(within, e.encoder.encode(batch))
		cancel()
		clear(batch)
		if err != nil {
			e.queue.Drop(len(batch))
		}
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
		e.log.WithError(err).Warn("Cannot export connection records: those are dropped, traffic goes on")
	case err == nil && e.failing:
		e.log.Info("Can export connection records again")
	}
	if err != nil {
		e.errors.Add(1)
	}
	e.failing = err != nil
}

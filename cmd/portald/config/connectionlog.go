package config

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/secret"
)

// ConnectionLog is where records are written. Path: empty for none, "-" for standard error. Format: of
// connlog.FormatNames.
type ConnectionLog struct {
	Path, Format string
	Rotation     connlog.Rotation
	OTLP         OTLP
}

// OTLP is the collector that records are exported to; what is empty is as OTEL_EXPORTER_OTLP_* say.
type OTLP struct {
	Endpoint                  secret.URL
	Headers                   []secret.Header
	CAFile, CertFile, KeyFile string
	Changes                   bool // are exported too
}

// ConnectionLogConfiguration is where records of connections go.
type ConnectionLogConfiguration struct {
	// path of the file, "-" for standard error. Empty: no records are written.
	Path string `json:"path,omitempty"`
	// format is text, json, logfmt or columns.
	Format string `json:"format,omitempty"`
	// events of a connection to log: start, attempt, periodic, end.
	Events []string `json:"events,omitempty"`
	// period is the time between two records of a connection that is open for long, with the event periodic.
	Period *metav1.Duration `json:"period,omitempty"`
	// maxSize is the size at which the file is renamed and a new one started, such as 100Mi, the default. 0: at none.
	MaxSize string `json:"maxSize,omitempty"`
	// maxAge is the age at which the file is. 0: at none.
	MaxAge metav1.Duration `json:"maxAge,omitzero"`
	// maxFiles is how many renamed files are kept. 0: all.
	MaxFiles *int32 `json:"maxFiles,omitempty"`
	// compress has renamed files compressed with gzip.
	Compress bool `json:"compress,omitempty"`
	// otlp is the OpenTelemetry collector that the records are exported to as well.
	OTLP OTLPConfiguration `json:"otlp,omitzero"`
}

// OTLPConfiguration is an OpenTelemetry collector. For fields that are left out, the environment variables
// OTEL_EXPORTER_OTLP_* apply.
type OTLPConfiguration struct {
	// endpoint is the URL of the collector for OTLP over HTTP, such as https://collector:4318.
	Endpoint secret.URL `json:"endpoint,omitzero"`
	// headers of requests, each NAME=VALUE.
	Headers []secret.Header `json:"headers,omitempty"`
	// caFile has the certificates that sign the collector's.
	CAFile string `json:"caFile,omitempty"`
	// certFile has the certificate that portald shows.
	CertFile string `json:"certFile,omitempty"`
	// keyFile has its key.
	KeyFile string `json:"keyFile,omitempty"`
	// changes has the changes on this node exported too, as portald changes lists them. True by default.
	Changes *bool `json:"changes,omitempty"`
}

// The log takes no more of the disk than these by default: at which size a file is renamed, and how many renamed ones
// are kept.
const (
	defaultSize  = "100Mi"
	defaultFiles = 5
)

func (c *ConnectionLogConfiguration) setDefaults() {
	fill(&c.Format, "text")
	if len(c.Events) == 0 {
		c.Events = []string{string(connlog.End)}
	}
	fillOptional(&c.Period, metav1.Duration{Duration: connlog.DefaultPeriod})
	fill(&c.MaxSize, defaultSize)
	fillOptional(&c.MaxFiles, defaultFiles)
	fillOptional(&c.OTLP.Changes, true)
}

// connectionLog returns the connection log of checked documents.
func (c *ConnectionLogConfiguration) connectionLog() ConnectionLog {
	return ConnectionLog{
		Path: c.Path, Format: c.Format,
		OTLP: OTLP{c.OTLP.Endpoint, c.OTLP.Headers, c.OTLP.CAFile, c.OTLP.CertFile, c.OTLP.KeyFile, *c.OTLP.Changes},
		Rotation: connlog.Rotation{
			Size: sizeOf(c.MaxSize), Age: c.MaxAge.Duration, Files: int(*c.MaxFiles), Compress: c.Compress,
		},
	}
}

// events returns the events of checked documents.
func (c *ConnectionLogConfiguration) events() connlog.EventSettings {
	s := connlog.EventSettings{Period: c.Period.Duration}
	for _, e := range c.Events {
		s.Events = append(s.Events, connlog.Event(e))
	}
	return s
}

// sizeOf is a size in bytes, 0 if it is none.
func sizeOf(text string) int64 {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return q.Value()
}

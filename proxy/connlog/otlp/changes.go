package otlp

import (
	"context"
	"strings"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"

	"github.com/portald/portald/proxy/changes"
)

// changeScope names what made the records of changes.
const changeScope = "github.com/portald/portald/proxy/changes"

// follow queues changes until ctx ends. It reads them at once, so that the history does not forget them while a
// collector makes the exporter wait.
func (e *Exporter) follow(ctx context.Context) {
	if e.history == nil {
		return
	}
	position := e.begin
	for ended := false; ; {
		all, missed, next, more := e.history.After(position)
		e.changes.Drop(int(missed))
		for _, c := range all {
			e.changes.Put(c)
		}
		if position = next; ended {
			return // with all that came before the end
		}
		select {
		case <-more:
		case <-ctx.Done():
			ended = true
		}
	}
}

// changes returns the request of a batch of changes: the line that portald changes prints is the body. Its attributes
// are the fields of the line as JSON, so that records and changes of a Service have the same ones, and OpenTelemetry's
// names of these.
func (e *encoder) changes(batch []changes.Change) *collector.ExportLogsServiceRequest {
	made := make([]*logs.LogRecord, len(batch))
	for i := range batch {
		made[i] = change(&batch[i])
	}
	return e.request(changeScope, made)
}

func change(c *changes.Change) *logs.LogRecord {
	line := c.Line()
	out := &logs.LogRecord{
		TimeUnixNano:         uint64(c.Time.UnixNano()),
		ObservedTimeUnixNano: uint64(time.Now().UnixNano()),
		EventName:            "portald.change." + string(c.Kind),
		Body:                 textValue(line.Print()),
	}
	setSeverity(out, c.Kind.Warning())
	for _, field := range []struct{ name, value string }{
		{"kind", string(line.Kind)}, {"service", line.Service}, {"protocol", line.Protocol}, {"endpoint", line.Endpoint},
		{"pod", line.Pod}, {"what", line.What}, {"old", line.Old}, {"new", line.New},
		{"k8s.namespace.name", c.Service.Namespace}, {"k8s.service.name", c.Service.Name},
		{"k8s.pod.name", c.Pod[strings.IndexByte(c.Pod, '/')+1:]}, {"network.transport", line.Protocol},
	} {
		if field.value != "" {
			out.Attributes = append(out.Attributes, attribute(field.name, textValue(field.value)))
		}
	}
	return out
}

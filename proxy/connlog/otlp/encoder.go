package otlp

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/portald/portald/proxy/connlog"
)

// encoder makes log records of OpenTelemetry out of reports: the line as text is the body, and the fields of the line
// are attributes of the same names. One goroutine uses it.
type encoder struct {
	logger log.Logger
	made   []sdklog.Record
	line   connlog.Line
	text   []byte
}

func newEncoder(node, version string) *encoder {
	e := &encoder{}
	provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(e), sdklog.WithAttributeCountLimit(-1),
		sdklog.WithResource(resource.NewSchemaless(attribute.String("service.name", "portald"),
			attribute.String("service.version", version), attribute.String("k8s.node.name", node))))
	e.logger = provider.Logger("github.com/portald/portald/proxy/records")
	return e
}

// encode returns the log records of a batch, valid until the next call.
func (e *encoder) encode(batch []connlog.Report) []sdklog.Record {
	e.made = e.made[:0]
	for i := range batch {
		e.line.FillReport(batch[i])
		e.logger.Emit(context.Background(), e.record())
	}
	return e.made
}

// record is the log record of the line.
func (e *encoder) record() (out log.Record) {
	e.text = connlog.AppendText(e.text[:0], &e.line)
	out.SetTimestamp(e.line.End())
	out.SetEventName("portald.connection." + string(e.line.Event))
	out.SetBody(attribute.StringValue(string(bytes.TrimSuffix(e.text, []byte{'\n'}))))
	out.SetSeverity(log.SeverityInfo)
	out.SetSeverityText("INFO")
	if e.line.Failed() {
		out.SetSeverity(log.SeverityWarn)
		out.SetSeverityText("WARN")
	}
	var fields attributes
	e.line.Fields(&fields)
	out.AddAttributes(fields...)
	return out
}

// OnEmit implements sdklog.Processor: it collects what the SDK made of a record.
func (e *encoder) OnEmit(_ context.Context, r *sdklog.Record) error {
	e.made = append(e.made, r.Clone())
	return nil
}

// Enabled implements sdklog.Processor.
func (e *encoder) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

// Shutdown implements sdklog.Processor.
func (e *encoder) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdklog.Processor.
func (e *encoder) ForceFlush(context.Context) error { return nil }

// attributes are fields as attributes. What is empty, null or [] is left out.
type attributes []attribute.KeyValue

// Field implements records.FieldWriter.
func (a *attributes) Field(name string, v slog.Value) {
	if value, known := valueOf(v); known {
		*a = append(*a, attribute.KeyValue{Key: attribute.Key(name), Value: value})
	}
}

func valueOf(v slog.Value) (out attribute.Value, known bool) {
	switch v.Kind() {
	case slog.KindString:
		return attribute.StringValue(v.String()), v.String() != ""
	case slog.KindInt64:
		return attribute.Int64Value(v.Int64()), true
	case slog.KindUint64:
		return attribute.Int64Value(int64(v.Uint64())), true
	case slog.KindFloat64:
		return attribute.Float64Value(v.Float64()), true
	case slog.KindBool:
		return attribute.BoolValue(v.Bool()), true
	}
	switch v := v.Any().(type) {
	case *connlog.Time:
		text, err := v.AppendText(nil)
		return attribute.StringValue(string(text)), err == nil
	case *netip.AddrPort:
		return attribute.StringValue(v.String()), v.IsValid()
	case *[]connlog.Attempt:
		return attempts(*v), len(*v) > 0
	case connlog.Object:
		return object(v), true
	}
	return out, false
}

func attempts(all []connlog.Attempt) attribute.Value {
	out := make([]attribute.Value, len(all))
	for i := range all {
		out[i] = object(&all[i])
	}
	return attribute.SliceValue(out...)
}

func object(o connlog.Object) attribute.Value {
	var fields attributes
	o.Fields(&fields)
	return attribute.MapValue(fields...)
}

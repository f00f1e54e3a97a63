package otlp

import (
	"bytes"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"

	"github.com/portald/portald/proxy/connlog"
)

// recordScope names what made the records of connections.
const recordScope = "github.com/portald/portald/proxy/records"

// encoder makes requests of OTLP out of reports and changes: the line as text is the body, and the fields of the line
// are attributes of the same names. One goroutine uses it.
type encoder struct {
	resource *resource.Resource
	line     connlog.Line
	text     []byte
}

// newEncoder returns an encoder; more are attributes of all records beside those that name the sender.
func newEncoder(node, version string, more map[string]string) *encoder {
	all := maps.Clone(more)
	maps.Copy(all, map[string]string{
		"service.name": "portald", "service.version": version, "k8s.node.name": node,
	})
	e := &encoder{resource: &resource.Resource{}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		e.resource.Attributes = append(e.resource.Attributes, attribute(name, textValue(all[name])))
	}
	return e
}

// reports returns the request of a batch of reports.
func (e *encoder) reports(batch []connlog.Report) *collector.ExportLogsServiceRequest {
	made := make([]*logs.LogRecord, len(batch))
	for i := range batch {
		e.line.FillReport(batch[i])
		made[i] = e.record()
	}
	return e.request(recordScope, made)
}

func (e *encoder) request(scope string, made []*logs.LogRecord) *collector.ExportLogsServiceRequest {
	return &collector.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{
		Resource:  e.resource,
		ScopeLogs: []*logs.ScopeLogs{{Scope: &common.InstrumentationScope{Name: scope}, LogRecords: made}},
	}}}
}

// record is the log record of the line.
func (e *encoder) record() *logs.LogRecord {
	e.text = connlog.AppendText(e.text[:0], &e.line)
	out := &logs.LogRecord{
		TimeUnixNano:         uint64(e.line.End().UnixNano()),
		ObservedTimeUnixNano: uint64(time.Now().UnixNano()),
		EventName:            "portald.connection." + string(e.line.Event),
		Body:                 textValue(string(bytes.TrimSuffix(e.text, []byte{'\n'}))),
	}
	setSeverity(out, e.line.Failed())
	var fields attributes
	e.line.Fields(&fields)
	out.Attributes = fields
	return out
}

func setSeverity(of *logs.LogRecord, warning bool) {
	of.SeverityNumber, of.SeverityText = logs.SeverityNumber_SEVERITY_NUMBER_INFO, "INFO"
	if warning {
		of.SeverityNumber, of.SeverityText = logs.SeverityNumber_SEVERITY_NUMBER_WARN, "WARN"
	}
}

// attributes are fields as attributes. Empty values, null and [] are left out.
type attributes []*common.KeyValue

// Field implements connlog.FieldWriter.
func (a *attributes) Field(name string, v slog.Value) {
	if value := valueOf(v); value != nil {
		*a = append(*a, attribute(name, value))
	}
}

func attribute(name string, value *common.AnyValue) *common.KeyValue {
	return &common.KeyValue{Key: name, Value: value}
}

// valueOf returns nil for a value that is empty.
func valueOf(v slog.Value) *common.AnyValue {
	switch v.Kind() {
	case slog.KindString:
		if v.String() != "" {
			return textValue(v.String())
		}
		return nil
	case slog.KindInt64:
		return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: v.Int64()}}
	case slog.KindUint64:
		return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: int64(v.Uint64())}}
	case slog.KindFloat64:
		return &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: v.Float64()}}
	case slog.KindBool:
		return &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: v.Bool()}}
	}
	switch v := v.Any().(type) {
	case *connlog.Time:
		if text, err := v.AppendText(nil); err == nil {
			return textValue(string(text))
		}
	case *netip.AddrPort:
		if v.IsValid() {
			return textValue(v.String())
		}
	case *[]connlog.Attempt:
		if len(*v) > 0 {
			return attempts(*v)
		}
	case connlog.Object:
		return object(v)
	}
	return nil
}

// textValue is a text in UTF-8, which OTLP demands.
func textValue(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(s, "\ufffd")}}
}

func attempts(all []connlog.Attempt) *common.AnyValue {
	out := make([]*common.AnyValue, len(all))
	for i := range all {
		out[i] = object(&all[i])
	}
	return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: out}}}
}

func object(o connlog.Object) *common.AnyValue {
	var fields attributes
	o.Fields(&fields)
	return &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{Values: fields}}}
}

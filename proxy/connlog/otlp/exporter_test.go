package otlp

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus/hooks/test"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logs "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/secret"
)

// receiver is an OTLP receiver over HTTP.
type receiver struct {
	mu       sync.Mutex
	status   int // of answers
	header   http.Header
	resource map[string]string
	got      []*logs.LogRecord
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var body io.Reader = request.Body
	if request.Header.Get("Content-Encoding") == "gzip" {
		unzip, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzip
	}
	text, err := io.ReadAll(body)
	var export collector.ExportLogsServiceRequest
	if err != nil || request.URL.Path != "/v1/logs" || proto.Unmarshal(text, &export) != nil {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.header = request.Header
	if r.status != 0 {
		w.WriteHeader(r.status)
		return
	}
	for _, of := range export.ResourceLogs {
		r.resource = texts(of.Resource.Attributes)
		for _, scope := range of.ScopeLogs {
			r.got = append(r.got, scope.LogRecords...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) records() []*logs.LogRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

// texts are attributes that are texts.
func texts(all []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range all {
		out[a.Key] = a.Value.GetStringValue()
	}
	return out
}

// valueOfKey is the value of an attribute, nil if there is none.
func valueOfKey(all []*common.KeyValue, key string) *common.AnyValue {
	for _, a := range all {
		if a.Key == key {
			return a.Value
		}
	}
	return nil
}

func report(id uint64) connlog.Report {
	at := netip.MustParseAddrPort
	return connlog.Report{Event: connlog.End, Record: &record.Record{
		ID: id, CarriedBy: record.Userspace, Start: time.Unix(1000, 0), Duration: 12 * time.Millisecond,
		Service: service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP},
		Client:  at("10.0.0.9:41234"), OriginalDst: at("10.96.0.10:80"),
		Attempts: []record.Attempt{{Endpoint: at("10.1.0.2:80"), Err: "connection refused", Times: 2, Took: time.Millisecond},
			{Endpoint: at("10.1.0.3:80"), Proxy: at("10.0.0.1:35012"), Times: 1}},
		Endpoint: service.Endpoint{Addr: at("10.1.0.3:80"), Pod: "shop/cart-a"}, BytesFromClient: 7, BytesToEndpoint: 7,
		Connect: 1500 * time.Microsecond, FirstByte: -1, ClosedBy: record.Client, CloseType: record.FIN,
		Outcome:   record.OutcomeOK,
		ClientTCP: record.TCPInfo{Known: true, RTT: 250 * time.Microsecond, Retransmits: 3},
	}}
}

// exporting runs an exporter; the function returned ends it.
func exporting(t *testing.T, o Options) (e *Exporter, told *test.Hook, stop func()) {
	t.Helper()
	log, told := test.NewNullLogger()
	o.Log, o.Node, o.Version = log, "node-1", "v1.2.3"
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return e, told, sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

func TestExport(t *testing.T) {
	r := &receiver{}
	server := httptest.NewServer(r)
	defer server.Close()
	e, told, stop := exporting(t, Options{
		Endpoint: server.URL, Headers: []secret.Header{secret.NewHeader("X-Tenant=shop=1")},
	})
	defer stop()
	const all, left = 1500, 3
	for id := range uint64(all) {
		if id == all-left {
			eventually(t, "what came before to be sent", func() bool { return len(r.records()) == all-left })
		}
		e.Put(report(id + 1))
	}
	stop() // what is left is sent at the end
	got := r.records()
	if len(got) != all || e.Dropped() != 0 || e.Errors() != 0 || len(told.AllEntries()) != 0 {
		t.Fatalf("%d of %d, %d dropped, %d errors, told %v", len(got), all, e.Dropped(), e.Errors(), told.AllEntries())
	}
	if r.header.Get("X-Tenant") != "shop=1" || r.resource["service.name"] != "portald" ||
		r.resource["service.version"] != "v1.2.3" || r.resource["k8s.node.name"] != "node-1" {
		t.Errorf("header %v, resource %v", r.header, r.resource)
	}
	first := got[0]
	if first.TimeUnixNano != uint64(time.Unix(1000, 12_000_000).UnixNano()) || first.SeverityText != "WARN" ||
		first.EventName != "portald.connection.end" ||
		!strings.Contains(first.Body.GetStringValue(), "shop/cart:http tcp 10.0.0.9:41234 → 10.96.0.10:80") {
		t.Errorf("record %v", first)
	}
	fields := texts(first.Attributes)
	if fields["service"] != "shop/cart:http" || fields["endpoint"] != "10.1.0.3:80" || fields["termination"] != "--" ||
		valueOfKey(first.Attributes, "id").GetIntValue() != 1 ||
		valueOfKey(first.Attributes, "connect_ms").GetDoubleValue() != 1.5 ||
		valueOfKey(first.Attributes, "first_byte_ms") != nil || valueOfKey(first.Attributes, "error") != nil {
		t.Errorf("attributes %v", first.Attributes)
	}
	tcp := valueOfKey(first.Attributes, "client_tcp").GetKvlistValue().GetValues()
	dials := valueOfKey(first.Attributes, "attempts").GetArrayValue().GetValues()
	if valueOfKey(tcp, "rtt_ms").GetDoubleValue() != 0.25 || valueOfKey(tcp, "retransmits").GetIntValue() != 3 ||
		len(dials) != 2 || texts(dials[0].GetKvlistValue().GetValues())["error"] != "connection refused" {
		t.Errorf("TCP_INFO %v, attempts %v", tcp, dials)
	}
}

// The environment says where the collector is, as the specification has it, and options override it.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"} {
		t.Setenv(name, "")
	}
	if o := (Options{}); o.Configured() {
		t.Error("there is a collector")
	}
	r := &receiver{}
	server := httptest.NewServer(r)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=cart")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	if o := (Options{}); !o.Configured() {
		t.Error("there is no collector")
	}
	e, _, stop := exporting(t, Options{})
	e.Put(report(1))
	stop()
	if len(r.records()) != 1 || r.header.Get("X-Tenant") != "cart" || r.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%d records, header %v", len(r.records()), r.header)
	}
}

// A variable that cannot be read is told without its value, and in our log: not by the library to standard error.
func TestUnreadableEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS": "Bearer hush", "OTEL_EXPORTER_OTLP_ENDPOINT": "https://jane:hu sh@a b:x",
		"OTEL_EXPORTER_OTLP_TIMEOUT": "hush",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			stderr, told := os.Stderr, ""
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			os.Stderr = write
			log, hook := test.NewNullLogger()
			_, err = New(Options{Log: log})
			os.Stderr = stderr
			_ = write.Close()
			raw, _ := io.ReadAll(read)
			for _, entry := range hook.AllEntries() {
				told += entry.Message
			}
			if err != nil || !strings.Contains(told, "OTEL_EXPORTER_OTLP_*") || strings.Contains(told, "hu") || len(raw) > 0 {
				t.Errorf("%v, told %q, and to standard error %q", err, told, raw)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	r := &receiver{}
	server := httptest.NewTLSServer(r)
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	e, told, stop := exporting(t, Options{Endpoint: server.URL, CAFile: ca})
	e.Put(report(1))
	stop()
	if len(r.records()) != 1 {
		t.Errorf("%d records, told %v", len(r.records()), told.AllEntries())
	}
	for _, o := range []Options{{CAFile: ca + ".none"}, {CertFile: ca, KeyFile: ca}, {CAFile: "exporter_test.go"}} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "export connection records") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A collector that hangs costs those who put reports nothing, and the daemon's end a few seconds.
func TestHangingCollector(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	release := make(chan struct{})
	requests := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		requests <- struct{}{}
		<-release
	}))
	defer server.Close()
	defer close(release)
	e, told, stop := exporting(t, Options{Endpoint: server.URL, Buffer: 1000})
	e.Put(report(0))
	<-requests
	const all = 50_000
	r := report(1)
	for range all {
		e.Put(r)
	}
	if n := e.Dropped(); n != all-1000 {
		t.Errorf("%d dropped, want all but 1000", n)
	}
	start := time.Now()
	stop()
	if took := time.Since(start); took > 4*finishTime {
		t.Errorf("it ended after %v", took)
	}
	if n := e.Dropped(); n != all+1 || e.Errors() == 0 || len(told.AllEntries()) != 2 ||
		told.LastEntry().Message != "The collector did not get 50001 connection records and 0 changes" {
		t.Errorf("%d dropped of %d, %d errors, told %v", n, all+1, e.Errors(), told.AllEntries())
	}
}

// Records that a collector refuses are dropped and counted, and logged: once, and how many once that has ended.
func TestRefusingCollector(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	r := &receiver{status: http.StatusBadRequest}
	server := httptest.NewServer(r)
	defer server.Close()
	e, told, stop := exporting(t, Options{Endpoint: server.URL})
	defer stop()
	for n := range uint64(2) {
		e.Put(report(n))
		eventually(t, "the drop", func() bool { return e.Dropped() == n+1 })
	}
	r.answer(0)
	e.Put(report(3))
	eventually(t, "the record", func() bool { return len(r.records()) == 1 })
	stop()
	if n := len(told.AllEntries()); n != 3 || e.Errors() != 2 ||
		told.LastEntry().Message != "The collector did not get 2 connection records and 0 changes" {
		t.Errorf("told %d lines of %d errors, last %q", n, e.Errors(), told.LastEntry().Message)
	}
}

// Records that a collector cannot take now are sent again, not before it says; the part of a batch that it refuses is
// not sent again.
func TestSentAgain(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 1 {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "in a\x1b moment", http.StatusServiceUnavailable)
			return
		}
		answer, err := proto.Marshal(&collector.ExportLogsServiceResponse{
			PartialSuccess: &collector.ExportLogsPartialSuccess{RejectedLogRecords: 3, ErrorMessage: "too old"},
		})
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(answer)
	}))
	defer server.Close()
	s := settings{url: server.URL, header: http.Header{}, timeout: defaultTimeout}
	c := newClient(s, "v1")
	var later retryable
	if _, err := c.send(t.Context(), nil); !errors.As(err, &later) || later.after != time.Second ||
		!strings.HasSuffix(err.Error(), `503 Service Unavailable: in a\x1b moment`) {
		t.Errorf("%v", err)
	}
	refused, err := c.export(t.Context(), &collector.ExportLogsServiceRequest{})
	if err != nil || refused != "3 records: too old" || requests != 2 {
		t.Errorf("refused %q, %v, after %d requests", refused, err, requests)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "x": 0, "Fri, 02 Jan 2026 03:05:05 GMT": time.Minute,
		"Fri, 02 Jan 2026 03:00:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {text}}, at); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// Of two variables the one of logs counts, whose URL is used as it is.
func TestSettings(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://u:p@all:1/below/")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1500")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=other, zone = a%20b")
	var env environment
	if s := env.settings(); s.url != "https://all:1/below/v1/logs" || s.timeout != 1500*time.Millisecond {
		t.Errorf("%+v", s)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://logs:2")
	if s := env.settings(); s.url != "http://logs:2/" {
		t.Errorf("%+v", s)
	}
	got := newEncoder("n1", "v1", env.resource()).resource
	if all := texts(got.Attributes); all["service.name"] != "portald" || all["zone"] != "a b" || len(all) != 4 {
		t.Errorf("%v", got)
	}
	if env.unread > 0 {
		t.Errorf("%d were not read", env.unread)
	}
}

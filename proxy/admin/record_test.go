package admin

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"github.com/portald/portald/proxy/service"
	"github.com/portald/portald/proxy/splice"
)

var cart = service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: service.TCP}

func addr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// record is a connection that went well at the second try.
func record() *splice.Record {
	return &splice.Record{
		ID:          7,
		Start:       time.Date(2026, 11, 21, 13, 0, 1, 123456789, time.FixedZone("", 3600)),
		Service:     cart,
		Client:      addr("10.0.0.9:41234"),
		OriginalDst: addr("10.96.0.10:80"),
		Portal:      service.ClusterIP,
		Endpoint:    service.Endpoint{Addr: addr("10.1.0.3:8080"), Pod: "shop/cart-a", Node: "node-1"},
		Attempts: []splice.Attempt{
			{Endpoint: addr("10.1.0.2:8080"), Proxy: addr("10.0.0.1:35010"), Took: 200 * time.Microsecond,
				Err: "connection refused"},
			{Endpoint: addr("10.1.0.3:8080"), Proxy: addr("10.0.0.1:35012"), Took: 150 * time.Microsecond},
		},
		Affinity:          "moved",
		BytesFromClient:   1234,
		BytesToEndpoint:   1234,
		BytesFromEndpoint: 45_001,
		BytesToClient:     45_001,
		Connect:           401234 * time.Nanosecond,
		FirstByte:         1100 * time.Microsecond,
		Duration:          12 * time.Millisecond,
		ClosedBy:          splice.Client,
		CloseType:         splice.FIN,
		Outcome:           splice.OutcomeOK,
	}
}

// broken is a connection whose client reset it with an answer on its way.
func broken() *splice.Record {
	r := record()
	r.BytesToClient, r.CloseType, r.Outcome, r.Error = 9000, splice.Reset, splice.OutcomeClientReset,
		"connection reset by peer"
	return r
}

// stray is a connection that came straight to the proxy port and was refused.
func stray() *splice.Record {
	return &splice.Record{
		ID:          8,
		Start:       time.Date(2026, 11, 21, 12, 0, 2, 0, time.UTC),
		Service:     service.PortName{Namespace: "shop", Name: "dns", Protocol: service.UDP},
		Client:      addr("[fd00::9]:41234"),
		OriginalDst: netip.AddrPort{},
		Connect:     -1,
		FirstByte:   -1,
		Duration:    30 * time.Microsecond,
		ClosedBy:    splice.Proxy,
		CloseType:   splice.Reset,
		Outcome:     splice.OutcomeNotPortal,
	}
}

func format(t testing.TB, f logrus.Formatter, r *splice.Record) string {
	t.Helper()
	line, err := f.Format(&logrus.Entry{Data: logrus.Fields{recordField: r}})
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

func TestJSONLine(t *testing.T) {
	f := newJSONFormatter()
	for _, tc := range []struct {
		record *splice.Record
		want   string
	}{
		{record(), `{"time":"2026-11-21T12:00:01.123456Z","id":7,"service":"shop/cart:http","protocol":"tcp",` +
			`"client":"10.0.0.9:41234","original_dst":"10.96.0.10:80","portal":"ClusterIP","proxy":"10.0.0.1:35012",` +
			`"endpoint":"10.1.0.3:8080","pod":"shop/cart-a","node":"node-1","attempts":[{"endpoint":"10.1.0.2:8080",` +
			`"proxy":"10.0.0.1:35010","ms":0.2,"error":"connection refused"},{"endpoint":"10.1.0.3:8080",` +
			`"proxy":"10.0.0.1:35012","ms":0.15}],"affinity":"moved","bytes_from_client":1234,"bytes_from_endpoint":45001,` +
			`"connect_ms":0.401,"first_byte_ms":1.1,"duration_ms":12,"closed_by":"client","close_type":"fin",` +
			`"outcome":"ok","error":""}`},
		{broken(), `{"time":"2026-11-21T12:00:01.123456Z","id":7,"service":"shop/cart:http","protocol":"tcp",` +
			`"client":"10.0.0.9:41234","original_dst":"10.96.0.10:80","portal":"ClusterIP","proxy":"10.0.0.1:35012",` +
			`"endpoint":"10.1.0.3:8080","pod":"shop/cart-a","node":"node-1","attempts":[{"endpoint":"10.1.0.2:8080",` +
			`"proxy":"10.0.0.1:35010","ms":0.2,"error":"connection refused"},{"endpoint":"10.1.0.3:8080",` +
			`"proxy":"10.0.0.1:35012","ms":0.15}],"affinity":"moved","bytes_from_client":1234,"bytes_from_endpoint":45001,` +
			`"bytes_to_client":9000,"connect_ms":0.401,"first_byte_ms":1.1,"duration_ms":12,"closed_by":"client",` +
			`"close_type":"reset",` +
			`"outcome":"client_reset","error":"connection reset by peer"}`},
		{stray(), `{"time":"2026-11-21T12:00:02.000000Z","id":8,"service":"shop/dns","protocol":"udp",` +
			`"client":"[fd00::9]:41234","original_dst":"","portal":"","proxy":"","endpoint":"","pod":"","node":"",` +
			`"attempts":[],` +
			`"affinity":"","bytes_from_client":0,"bytes_from_endpoint":0,"connect_ms":null,"first_byte_ms":null,` +
			`"duration_ms":0.03,"closed_by":"proxy","close_type":"reset","outcome":"not_a_portal","error":""}`},
	} {
		if diff := cmp.Diff(tc.want+"\n", format(t, f, tc.record)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTextLine(t *testing.T) {
	failed := record()
	failed.Endpoint = service.Endpoint{}
	failed.Attempts[1].Err = "timeout"
	failed.Attempts[1].Took = 250 * time.Millisecond
	failed.Attempts[0].Times = 12
	failed.Connect, failed.FirstByte, failed.Affinity = -1, -1, ""
	failed.ClosedBy, failed.CloseType, failed.Outcome = splice.Proxy, splice.Reset, splice.OutcomeDialFailed
	for _, tc := range []struct {
		record *splice.Record
		want   string
	}{
		{record(), `2026-11-21 12:00:01.123 shop/cart:http tcp 10.0.0.9:41234 → 10.96.0.10:80 (ClusterIP) → ` +
			`10.0.0.1:35012 → 10.1.0.3:8080 shop/cart-a on node-1  ok  fin by client  1.2 kB up  45 kB down  connect 0.4 ms  ` +
			`first byte 1.1 ms  total 12 ms  affinity moved  ` +
			`[tried 10.1.0.2:8080 from 10.0.0.1:35010: connection refused 0.2 ms]`},
		{broken(), `2026-11-21 12:00:01.123 shop/cart:http tcp 10.0.0.9:41234 → 10.96.0.10:80 (ClusterIP) → ` +
			`10.0.0.1:35012 → 10.1.0.3:8080 shop/cart-a on node-1  client_reset  reset by client (connection reset by peer)  ` +
			`1.2 kB up  45 kB down (9.0 kB delivered)  connect 0.4 ms  first byte 1.1 ms  total 12 ms  affinity moved  ` +
			`[tried 10.1.0.2:8080 from 10.0.0.1:35010: connection refused 0.2 ms]`},
		{stray(), `2026-11-21 12:00:02.000 shop/dns udp [fd00::9]:41234 → - → -  not_a_portal  reset by proxy  ` +
			`0 B up  0 B down  total 0.03 ms`},
		{failed, `2026-11-21 12:00:01.123 shop/cart:http tcp 10.0.0.9:41234 → 10.96.0.10:80 (ClusterIP) → -  ` +
			`dial_failed  reset by proxy  1.2 kB up  45 kB down  total 12 ms  ` +
			`[tried 10.1.0.2:8080 from 10.0.0.1:35010: connection refused 12 times in 0.2 ms]  ` +
			`[tried 10.1.0.3:8080 from 10.0.0.1:35012: timeout 250 ms]`},
	} {
		if diff := cmp.Diff(tc.want+"\n", format(t, &textFormatter{}, tc.record)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAttemptsAlike(t *testing.T) {
	r := record()
	r.Attempts[0].Times = 12
	want := `{"endpoint":"10.1.0.2:8080","proxy":"10.0.0.1:35010","ms":0.2,"error":"connection refused","times":12}`
	if line := format(t, newJSONFormatter(), r); !strings.Contains(line, want) {
		t.Errorf("%s\nhas no %s", line, want)
	}
}

func TestTextUnits(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 9949: "9.9 kB", 9950: "10 kB",
		999_499: "999 kB", 999_500: "1.0 MB", 3_400_000_000: "3.4 GB", 1<<63 - 1: "9.2 EB"} {
		if got := string(appendBytes(nil, n)); got != want {
			t.Errorf("%d bytes: %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0.00 ms", 40 * time.Microsecond: "0.04 ms",
		96 * time.Microsecond: "0.1 ms", 9949 * time.Microsecond: "9.9 ms", 9950 * time.Microsecond: "10 ms",
		999 * time.Millisecond: "999 ms", 999_600 * time.Microsecond: "1.0 s", 45 * time.Second: "45 s",
		59_600 * time.Millisecond: "1m0s", time.Hour + 5*time.Second: "1h0m5s"} {
		if got := string(appendDuration(nil, d)); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestFormattersRefuseOtherEntries(t *testing.T) {
	for _, f := range []logrus.Formatter{newJSONFormatter(), &textFormatter{}} {
		if line, err := f.Format(&logrus.Entry{Message: "hello"}); err == nil {
			t.Errorf("%T wrote %q", f, line)
		}
	}
}

// FuzzLine gives both formats hostile strings: each stays one line, JSON stays JSON, text stays printable and its
// names stay words.
func FuzzLine(f *testing.F) {
	f.Add("cart", "shop/cart-a", "refused")
	f.Add("a\nb", "x y\x00", "\x1b[31mred\u202e\\n\xff")
	f.Add("\ufffd", "\xc3", "→")
	f.Fuzz(func(t *testing.T, svc, pod, failure string) {
		r := record()
		r.Service.Name, r.Endpoint.Pod, r.Attempts[0].Err = svc, pod, failure
		var line map[string]any
		if err := json.Unmarshal([]byte(format(t, newJSONFormatter(), r)), &line); err != nil {
			t.Fatal(err)
		}
		if got, want := line["service"], "shop/"+strings.ToValidUTF8(svc, "\ufffd")+":http"; utf8.ValidString(svc) &&
			got != want {
			t.Fatalf("service %q, want %q", got, want)
		}
		text := format(t, &textFormatter{}, r)
		body, ended := strings.CutSuffix(text, "\n")
		if !ended || !utf8.ValidString(text) || strings.ContainsFunc(body, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("line %q", text)
		}
		if words := strings.Fields(body); words[3] != "tcp" {
			t.Fatalf("the service is more than one word: %q", text)
		}
	})
}

func BenchmarkFormat(b *testing.B) {
	for name, f := range map[string]logrus.Formatter{"json": newJSONFormatter(), "text": &textFormatter{}} {
		b.Run(name, func(b *testing.B) {
			r := record()
			entry := &logrus.Entry{Data: logrus.Fields{recordField: r}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Format(entry); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

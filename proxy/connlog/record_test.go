package connlog

import (
	"encoding/json"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/printable"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
	"github.com/portald/portald/proxy/recordtest"
)

var cart = service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP}

func addr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

var sample, stray = recordtest.Sample, recordtest.Stray

// broken is a connection whose client reset it with an answer on its way.
func broken() *record.Record {
	r := sample()
	r.BytesToClient, r.CloseType, r.Outcome, r.Error = 9000, record.Reset, record.OutcomeClientReset,
		"connection reset by peer"
	return r
}

// format writes the line of a record in the format of that name.
func format(name string, r *record.Record) string { return string(FormatNamed(name)(nil, From(r))) }

func TestJSONLine(t *testing.T) {
	for _, tc := range []struct {
		record *record.Record
		want   string
	}{
		{sample(), `{"time":"2026-11-21T12:00:01.123456Z","event":"end","id":7,"carried_by":"userspace","service":"shop/cart:http",` +
			`"protocol":"tcp",` +
			`"client":"10.0.0.9:41234","original_dst":"10.96.0.10:80","portal":"ClusterIP","proxy":"10.0.0.1:35012",` +
			`"endpoint":"10.1.0.3:8080","pod":"shop/cart-a","node":"node-1","attempts":[{"endpoint":"10.1.0.2:8080",` +
			`"proxy":"10.0.0.1:35010","ms":0.2,"error":"connection refused"},{"endpoint":"10.1.0.3:8080",` +
			`"proxy":"10.0.0.1:35012","ms":0.15}],"affinity":"moved","bytes_from_client":1234,"bytes_from_endpoint":45001,` +
			`"connect_ms":0.401,"first_byte_ms":1.1,"duration_ms":12,"closed_by":"client","close_type":"fin",` +
			`"outcome":"ok","error":"","termination":"--","flags":""}`},
		{broken(), `{"time":"2026-11-21T12:00:01.123456Z","event":"end","id":7,"carried_by":"userspace","service":"shop/cart:http",` +
			`"protocol":"tcp",` +
			`"client":"10.0.0.9:41234","original_dst":"10.96.0.10:80","portal":"ClusterIP","proxy":"10.0.0.1:35012",` +
			`"endpoint":"10.1.0.3:8080","pod":"shop/cart-a","node":"node-1","attempts":[{"endpoint":"10.1.0.2:8080",` +
			`"proxy":"10.0.0.1:35010","ms":0.2,"error":"connection refused"},{"endpoint":"10.1.0.3:8080",` +
			`"proxy":"10.0.0.1:35012","ms":0.15}],"affinity":"moved","bytes_from_client":1234,"bytes_from_endpoint":45001,` +
			`"bytes_to_client":9000,"connect_ms":0.401,"first_byte_ms":1.1,"duration_ms":12,"closed_by":"client",` +
			`"close_type":"reset",` +
			`"outcome":"client_reset","error":"connection reset by peer",` +
			`"termination":"CD","flags":""}`},
		{stray(), `{"time":"2026-11-21T12:00:02.000000Z","event":"end","id":8,"carried_by":"userspace","service":"shop/dns","protocol":"udp",` +
			`"client":"[fd00::9]:41234","original_dst":"","portal":"","proxy":"","endpoint":"","pod":"","node":"",` +
			`"attempts":[],` +
			`"affinity":"","bytes_from_client":0,"bytes_from_endpoint":0,"connect_ms":null,"first_byte_ms":null,` +
			`"duration_ms":0.03,"closed_by":"proxy","close_type":"reset","outcome":"not_a_portal","error":"",` +
			`"termination":"PR","flags":"NR"}`},
	} {
		if diff := cmp.Diff(tc.want+"\n", format("json", tc.record)); diff != "" {
			t.Error(diff)
		}
	}
}

// full is a record that says all there is.
func full() *record.Record {
	r := broken()
	r.ClientPod, r.ClientNode, r.ClientZone, r.Endpoint.Zone = "front/web-1", "node-2", "zone-b", "zone-a"
	r.Errno, r.BytesToEndpoint, r.Replays = syscall.ECONNRESET, 1000, 2
	r.Attempts[1].Hedge = true
	r.ClientBlocked, r.EndpointBlocked = 3*time.Millisecond, 1500*time.Microsecond
	r.Waited = 400 * time.Microsecond
	r.ClientTCP = record.TCPInfo{Known: true, RTT: 1234567, RTTVar: time.Microsecond, Busy: time.Second}
	r.EndpointTCP = record.TCPInfo{Known: true, Retransmits: 2, Lost: 1, DeliveryRate: 1 << 40,
		ReceiverLimited: time.Hour, SenderLimited: time.Millisecond}
	return r
}

// A line that is read is the line that was written, whatever it says.
func TestLinesAreReadAsWritten(t *testing.T) {
	for _, r := range []*record.Record{sample(), broken(), stray(), full()} {
		text := format("json", r)
		var read Line
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&read); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(&read)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, string(again)+"\n"); diff != "" {
			t.Error(diff)
		}
		direct, err := json.Marshal(From(r))
		if err != nil || string(direct)+"\n" != text {
			t.Errorf("%s, %v", direct, err)
		}
	}
	const want = `"error":"connection reset by peer","errno":"ECONNRESET","errno_number":104,` +
		`"termination":"CD","flags":"","client_tcp":{"rtt_ms":1.235,"rttvar_ms":0.001,"retransmits":0,"lost":0,` +
		`"delivery_rate":0,"receiver_limited_ms":0,"sender_limited_ms":0,"busy_ms":1000},` +
		`"endpoint_tcp":{"rtt_ms":0,"rttvar_ms":0,"retransmits":2,"lost":1,"delivery_rate":1099511627776,` +
		`"receiver_limited_ms":3600000,"sender_limited_ms":1,"busy_ms":0}}`
	if text := format("json", full()); runtime.GOOS == "linux" && !strings.Contains(text, want) {
		t.Error(text)
	}
}

func TestTextLine(t *testing.T) {
	failed := sample()
	failed.Endpoint = service.Endpoint{}
	failed.Attempts[1].Err = "timeout"
	failed.Attempts[1].Took = 250 * time.Millisecond
	failed.Attempts[0].Times = 12
	failed.Connect, failed.FirstByte, failed.Affinity = -1, -1, ""
	failed.ClosedBy, failed.CloseType, failed.Outcome = record.Proxy, record.Reset, record.OutcomeDialFailed
	again := sample()
	again.Replays, again.Attempts[0].Err, again.Affinity = 1, "reset before a response", ""
	for _, tc := range []struct {
		record *record.Record
		want   string
	}{
		{again, `2026-11-21 12:00:01.123 shop/cart:http tcp 10.0.0.9:41234 → 10.96.0.10:80 (ClusterIP) → ` +
			`10.0.0.1:35012 → 10.1.0.3:8080 shop/cart-a on node-1  ok  fin by client  1.2 kB up  45 kB down  connect 0.4 ms  ` +
			`first byte 1.1 ms  total 12 ms  ` +
			`[tried 10.1.0.2:8080 from 10.0.0.1:35010: reset before a response 0.2 ms]  replays 1`},
		{sample(), `2026-11-21 12:00:01.123 shop/cart:http tcp 10.0.0.9:41234 → 10.96.0.10:80 (ClusterIP) → ` +
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
		if diff := cmp.Diff(tc.want+"\n", format("text", tc.record)); diff != "" {
			t.Error(diff)
		}
	}
}

// A dial that was overtaken is told of, and is no failure.
func TestHedgedDial(t *testing.T) {
	r := sample()
	r.Attempts[0].Err, r.Attempts[1].Hedge = record.Overtaken, true
	want := `"ms":0.2,"error":"overtaken"},{"endpoint":"10.1.0.3:8080","proxy":"10.0.0.1:35012","ms":0.15,"hedge":true}]`
	if line := format("json", r); !strings.Contains(line, want) {
		t.Errorf("%s\nhas no %s", line, want)
	}
	if line := format("text", r); !strings.Contains(line, "[tried 10.1.0.2:8080 from 10.0.0.1:35010: overtaken 0.2 ms]") {
		t.Error(line)
	}
	if From(r).Failed() || !From(sample()).Failed() {
		t.Error("a dial that was overtaken counts as a failure")
	}
}

func TestAttemptsAlike(t *testing.T) {
	r := sample()
	r.Attempts[0].Times = 12
	want := `{"endpoint":"10.1.0.2:8080","proxy":"10.0.0.1:35010","ms":0.2,"error":"connection refused","times":12}`
	if line := format("json", r); !strings.Contains(line, want) {
		t.Errorf("%s\nhas no %s", line, want)
	}
}

func TestLogfmtLine(t *testing.T) {
	r := full()
	r.Errno = 0
	for _, tc := range []struct {
		record *record.Record
		want   string
	}{
		{r, `time=2026-11-21T12:00:01.123456Z event=end id=7 carried_by=userspace service=shop/cart:http protocol=tcp ` +
			`client=10.0.0.9:41234 client_pod=front/web-1 client_node=node-2 client_zone=zone-b ` +
			`original_dst=10.96.0.10:80 portal=ClusterIP proxy=10.0.0.1:35012 endpoint=10.1.0.3:8080 pod=shop/cart-a ` +
			`node=node-1 zone=zone-a attempts="10.1.0.2:8080 from 10.0.0.1:35010 0.2 ms: connection refused; ` +
			`10.1.0.3:8080 from 10.0.0.1:35012 0.15 ms" replays=2 affinity=moved bytes_from_client=1234 bytes_to_endpoint=1000 ` +
			`bytes_from_endpoint=45001 bytes_to_client=9000 connect_ms=0.401 first_byte_ms=1.1 duration_ms=12 ` +
			`waited_ms=0.4 client_blocked_ms=3 endpoint_blocked_ms=1.5 closed_by=client close_type=reset outcome=client_reset ` +
			`error="connection reset by peer" termination=CD client_tcp_rtt_ms=1.235 client_tcp_rttvar_ms=0.001 ` +
			`client_tcp_retransmits=0 client_tcp_lost=0 client_tcp_delivery_rate=0 client_tcp_receiver_limited_ms=0 ` +
			`client_tcp_sender_limited_ms=0 client_tcp_busy_ms=1000 endpoint_tcp_rtt_ms=0 endpoint_tcp_rttvar_ms=0 ` +
			`endpoint_tcp_retransmits=2 endpoint_tcp_lost=1 endpoint_tcp_delivery_rate=1099511627776 ` +
			`endpoint_tcp_receiver_limited_ms=3600000 endpoint_tcp_sender_limited_ms=1 endpoint_tcp_busy_ms=0`},
		{stray(), `time=2026-11-21T12:00:02.000000Z event=end id=8 carried_by=userspace service=shop/dns protocol=udp ` +
			`client=[fd00::9]:41234 bytes_from_client=0 bytes_from_endpoint=0 duration_ms=0.03 closed_by=proxy ` +
			`close_type=reset outcome=not_a_portal termination=PR flags=NR`},
	} {
		if diff := cmp.Diff(tc.want+"\n", format("logfmt", tc.record)); diff != "" {
			t.Error(diff)
		}
	}
}

// Each column begins at the same place of all lines.
func TestColumns(t *testing.T) {
	want := strings.Fields("2026-11-21T12:00:02.000000Z end shop/dns udp [fd00::9]:41234 - - - - 0 0 - - 0.030 0 PR NR " +
		"not_a_portal")
	if got := strings.Fields(format("columns", stray())); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	starts := func(line string) (at []int) {
		for i, r := range line {
			if r != ' ' && (i == 0 || line[i-1] == ' ') {
				at = append(at, i)
			}
		}
		return at
	}
	for _, r := range []*record.Record{sample(), broken(), full()} {
		if line := format("columns", r); !slices.Equal(starts(line), starts(format("columns", stray()))) {
			t.Error(line)
		}
	}
	long := sample()
	long.Endpoint.Pod = strings.Repeat("x", 100)
	if got := len(strings.Fields(format("columns", long))); got != len(want) {
		t.Errorf("%d columns", got)
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

// FuzzLine gives all formats hostile strings: each stays one line, JSON is as encoding/json writes it, text stays
// printable and its names stay words.
func FuzzLine(f *testing.F) {
	f.Add("cart", "shop/cart-a", "refused")
	f.Add("a\nb", "x y\x00", "\x1b[31mred\u202e\\n\xff")
	f.Add("\ufffd", "\xc3", "→")
	f.Fuzz(func(t *testing.T, svc, pod, failure string) {
		r := sample()
		r.Service.Name, r.Endpoint.Pod, r.Attempts[0].Err = svc, pod, failure
		var line map[string]any
		if err := json.Unmarshal([]byte(format("json", r)), &line); err != nil {
			t.Fatal(err)
		}
		if got, want := line["service"], "shop/"+strings.ToValidUTF8(svc, "\ufffd")+":http"; utf8.ValidString(svc) &&
			got != want {
			t.Fatalf("service %q, want %q", got, want)
		}
		for _, name := range FormatNames() {
			text := format(name, r)
			if !utf8.ValidString(text) || strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") ||
				strings.ContainsFunc(text[:len(text)-1], func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Fatalf("%s: %q", name, text)
			}
		}
		direct, err := json.Marshal(From(r))
		if err != nil || string(printable.JSON(direct))+"\n" != format("json", r) {
			t.Fatalf("%s, encoding/json writes %s, %v", format("json", r), direct, err)
		}
		text := format("text", r)
		body, ended := strings.CutSuffix(text, "\n")
		if !ended || !utf8.ValidString(text) || strings.ContainsFunc(body, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("line %q", text)
		}
		if words := strings.Fields(body); words[3] != "tcp" {
			t.Fatalf("the service is more than one word: %q", text)
		}
	})
}

// BenchmarkFormat is the cost of a line, of which encoding/json is for comparison.
func BenchmarkFormat(b *testing.B) {
	formats := map[string]Format{"encoding/json": func(b []byte, l *Line) []byte {
		text, _ := json.Marshal(l)
		return append(b, text...)
	}}
	for _, name := range FormatNames() {
		formats[name] = FormatNamed(name)
	}
	for name, f := range formats {
		b.Run(name, func(b *testing.B) {
			r := ended(full())
			var line Line
			var text []byte
			b.ReportAllocs()
			for b.Loop() {
				line.FillReport(r)
				text = f(text[:0], &line)
			}
		})
	}
}

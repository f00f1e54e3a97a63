package flows

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/proxy/record"
)

// captured are events as the kernel sent them: see TestKernelTells.
const captured = "testdata/events"

func capturedEvents(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(captured)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		to, digits, _ := strings.Cut(lines.Text(), " ")
		at, digits, _ := strings.Cut(digits, " ")
		if out[to+" "+at], err = hex.DecodeString(digits); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// Each way to end is told apart.
func TestEnds(t *testing.T) { checkEnds(t, capturedEvents(t)) }

// checkEnds checks events of connections to each of the addresses that the test's rules translate.
func checkEnds(t *testing.T, events map[string][]byte) {
	t.Helper()
	type want struct {
		outcome  record.Outcome
		close    record.CloseType
		endpoint string
		answers  bool
	}
	ways := map[string]want{
		"tcp :80": {record.OutcomeOK, record.FIN, "8080", true},
		"tcp :81": {record.OutcomeDialFailed, record.Reset, "9", true},
		"tcp :82": {record.OutcomeDialFailed, record.Timeout, "8082", false},
		"tcp :83": {record.OutcomeReset, record.Reset, "8083", true},
		"udp :80": {record.OutcomeOK, record.Timeout, "8080", true},
		"udp :82": {record.OutcomeUnanswered, record.Timeout, "8082", false},
	}
	if len(events) != 2*len(ways) {
		t.Errorf("%d events", len(events))
	}
	for to, event := range events {
		var f Flow
		if !f.parse(event) {
			t.Errorf("%s: not parsed", to)
			continue
		}
		network, at, _ := strings.Cut(to, " ")
		w, host := ways[network+" "+at[strings.LastIndex(at, ":"):]], "127.0.0.1:"
		if strings.HasPrefix(at, "[") {
			host = "[::1]:"
		}
		end := endOf(&f)
		if end.outcome != w.outcome || end.close != w.close || f.Replier.String() != host+w.endpoint ||
			f.Answering != f.From || f.To.String() != at || f.Sent.Packets == 0 || f.Sent.Bytes < 28 ||
			f.Returned.Packets > 0 != w.answers {
			t.Errorf("%s: %+v of %+v", to, end, f)
		}
	}
}

// How an association of SCTP ends is told by its state, as far as the kernel knows.
func TestEndsOfSCTP(t *testing.T) {
	const up = SeenReply | Assured
	for _, c := range []struct {
		state   SCTPState
		status  Status
		left    uint32
		outcome record.Outcome
		close   record.CloseType
	}{
		{SCTPCookieWait, 0, 0, record.OutcomeDialFailed, record.Timeout},
		{SCTPCookieEchoed, SeenReply, 0, record.OutcomeDialFailed, record.Timeout},
		{SCTPClosed, SeenReply, 0, record.OutcomeDialFailed, record.Reset},
		{SCTPClosed, up, 0, record.OutcomeOK, ""},
		{SCTPUnknown, up, 0, record.OutcomeOK, ""},
		{SCTPEstablished, up, 90, record.OutcomeCut, ""},
		{SCTPEstablished, up, 0, record.OutcomeIdle, record.Timeout},
	} {
		f := Flow{Protocol: inet.SCTP, SCTP: c.state, Status: c.status, Timeout: c.left}
		if end := endOf(&f); end.outcome != c.outcome || end.close != c.close {
			t.Errorf("%s, %d: %+v, want %s %s", c.state, c.status, end, c.outcome, c.close)
		}
	}
	f := Flow{Protocol: inet.SCTP, SCTP: SCTPClosed, Timeout: 4}
	long := Timeouts{}
	long.SCTP[SCTPClosed] = 10 * time.Second
	if idle := long.idle(&f); idle != 6*time.Second {
		t.Errorf("idle for %s, want 6s", idle)
	}
	if f.SCTP = 7; long.idle(&f) != 0 { // SHUTDOWN_ACK_SENT
		t.Errorf("idle for %s in a state without a known timeout", long.idle(&f))
	}
}

// The parser allocates nothing: the kernel may report tens of thousands of flows a second.
func TestParseAllocatesNothing(t *testing.T) {
	var f Flow
	for to, event := range capturedEvents(t) {
		if n := testing.AllocsPerRun(100, func() { f.parse(event) }); n != 0 {
			t.Errorf("%s: %v allocations", to, n)
		}
	}
}

// The kernel's messages are parsed without trust in their shape.
func FuzzParse(f *testing.F) {
	for _, event := range capturedEvents(f) {
		f.Add(event)
		f.Add(event[:len(event)/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var flow Flow
		if flow.parse(b) && (!flow.To.IsValid() || !flow.Replier.IsValid()) {
			t.Errorf("%+v", flow)
		}
		endOf(&flow)
	})
}

func BenchmarkParse(b *testing.B) {
	event := capturedEvents(b)["tcp 10.96.0.1:80"]
	var f Flow
	b.ReportAllocs()
	for b.Loop() {
		f.parse(event)
	}
}

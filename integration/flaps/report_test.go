//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

func TestTables(t *testing.T) {
	var good, bad tally
	for i := range 100 {
		good.good(time.Duration(i+1) * time.Millisecond)
		bad.good(time.Millisecond)
	}
	bad.bad(time.Now(), refused, "x")
	bad.bad(time.Now(), refused, "x")
	bad.bad(time.Now(), wasReset, "x")
	one, two := good.result(), bad.result()
	one.Proxy, one.Client = "portald", "curl"
	two.Proxy, two.Client = "kube-proxy-nftables", "curl"
	r := report{Seed: 1, Seconds: 30, Endpoints: 5, Results: []result{one, two}, Skipped: []string{"pgbench: no initdb"}}
	want := `5 endpoints, 0 events in 30 s of seed 1; EndpointSlices do not change.

| curl                | operations |    failed | failed connects | failure kinds      | retried | p50 ms | p99 ms | max ms |
|---------------------|-----------:|----------:|----------------:|--------------------|--------:|-------:|-------:|-------:|
| portald             |        100 |         0 |               0 |                    |       0 |   50.0 |     99 |    100 |
| kube-proxy-nftables |        103 | 3 (2.9 %) |               2 | refused 2, reset 1 |       0 |    1.0 |      1 |      1 |

skipped: pgbench: no initdb
`
	if got := r.tables(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestFailuresAreKeptInPart(t *testing.T) {
	var c tally
	for range 2 * keptFailures {
		c.bad(time.Now(), other, strings.Repeat("x", 2*keptBytes)+"end")
	}
	r := c.result()
	if r.Failed != 2*keptFailures || len(r.First) != keptFailures {
		t.Errorf("%d failed, %d kept", r.Failed, len(r.First))
	}
	if said := r.First[0].Said; len(said) != keptBytes || !strings.HasSuffix(said, "end") {
		t.Errorf("kept %q", said)
	}
}

// Messages of real programs.
func TestKindOf(t *testing.T) {
	for said, want := range map[string]kind{
		"* connect to 10.96.7.3 port 8080 failed: Connection refused": refused,
		`pgbench: error: connection to server at "10.96.7.2", port 5432 failed: Connection refused
	Is the server running on that host and accepting TCP/IP connections?`: refused,
		`pgbench: error: connection to server at "10.96.7.2", port 5432 failed: server closed the connection unexpectedly
	This probably means the server terminated abnormally`: wasReset,
		"failed: FATAL:  the database system is starting up":                    wrongAnswer,
		"Error: Connection reset by peer":                                       wasReset,
		"WARNING: Could not fetch server CONFIG":                                wasReset,
		"rpc error: code = Unavailable desc = error reading from server: EOF":   wasReset,
		`transport: Error while dialing: dial tcp: connect: connection refused`: refused,
		"something new": other,
	} {
		if got := kindOf(said); got != want {
			t.Errorf("%q is %q, want %q", said, got, want)
		}
	}
}

func TestParseAnnotations(t *testing.T) {
	got := parseAnnotations("retry-on=connect,reset-before-response,hedge-after=50ms,example.org/a=b")
	want := map[string]string{
		"portald.io/retry-on": "connect,reset-before-response", "portald.io/hedge-after": "50ms", "example.org/a": "b",
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: got %q, want %q", key, got[key], value)
		}
	}
}

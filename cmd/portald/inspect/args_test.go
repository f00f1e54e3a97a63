package inspect

import (
	"strings"
	"testing"
)

// A word or an argument that a command does not have ends it before it asks the daemon, with what it wants.
func TestWrongWords(t *testing.T) {
	b := newBed(t)
	for line, want := range map[string]string{
		"conns --state foo":         "must be dialing, waiting, open,",
		"conns --state open,foo":    "HEARTBEAT_ACKED",
		"conns --proto foo":         "must be tcp, udp or sctp",
		"conns --carried-by foo":    "must be userspace or kernel",
		"conns --outcome foo":       "must be failed, or one of ok,",
		"conns --sort foo":          "must be age, bytes, idle or rtt",
		"conns -o foo":              "must be table, wide, json, yaml or jsonpath=",
		"conns shop/cart":           "--service shop/cart",
		"cut --state foo":           "must be dialing, waiting, open,",
		"cut --carried-by foo":      "must be userspace or kernel",
		"endpoints --state foo":     "must be used, terminating, not_ready,",
		"services --sort foo":       "must be name, open, ended, failed or bytes",
		"tail --proto foo":          "must be one of tcp, udp, sctp",
		"tail --carried-by foo":     "must be one of userspace, kernel",
		"tail --outcome foo":        "must be failed, or one of ok,",
		"tail -o foo":               "must be compact, dict, json or table",
		"tail shop/cart":            "--service shop/cart",
		"changes -o foo":            "must be text or json",
		"doctor -o foo":             "must be text or json",
		"doctor now":                "doctor now: takes flags only",
		"ready now":                 "ready now: takes flags only",
		"loglevel foo":              "must be error, warn, info, debug or trace, or be omitted",
		"explain":                   `a Service, an address, a pod, a client or the id of a connection, as in "portald explain shop/cart"`,
		"explain shop/cart shop/db": "takes one argument",
		"drain":                     `the endpoint, as address:port, address or pod, as in "portald drain shop/cart-a"`,
	} {
		if got := b.run(strings.Fields(line)...); got.code() != exitUsage || !strings.Contains(got.err.Error(), want) {
			t.Errorf("%s: exit code %d, %v, want %d and %q", line, got.code(), got.err, exitUsage, want)
		}
	}
}

// Each state that a connection may have is one that --state takes.
func TestStatesOfFlags(t *testing.T) {
	b := newBed(t)
	for _, state := range []string{"dialing", "half_closed", "unanswered", "ESTABLISHED", "SYN_SENT", "COOKIE_WAIT"} {
		if got := b.run("conns", "--state", "open,"+state, "--carried-by", "userspace,kernel"); got.err != nil {
			t.Errorf("%s: %v", state, got.err)
		}
	}
}

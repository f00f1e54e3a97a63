package daemon

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// portald reports all invalid flags in one run, exits with status 1, and changes no rules.
func TestBadFlags(t *testing.T) {
	b := bed.New(t)
	before := b.Rules()
	run := func(args ...string) string {
		t.Helper()
		out, err := b.Try(b.Node, bed.Portald, args...)
		if err == nil || !strings.Contains(err.Error(), "exit status") {
			t.Errorf("portald %v: %v, want an exit status", args, err)
		}
		return fmt.Sprint(out, err)
	}
	out := run("--connection-log-format=xml", "--nodeport-addresses=here", "--external-ip-cidrs=10.0.0.0/99",
		"--half-close-timeout=0s",
		"--connect-timeouts=1s,0s", "--proxy-port-range=9-8", "--iptables-variant=ebtables", "--log-level=loud",
		"--log-format=xml",
		"--healthz-bind-address=nowhere", "--udp-max-sessions=0", "--drain-timeout=-1s")
	for _, flag := range []string{
		"--manifests", "--connection-log-format xml", "--nodeport-addresses here", "--external-ip-cidrs 10.0.0.0/99",
		"--half-close-timeout 0s",
		"--connect-timeouts 0s", "--proxy-port-range 9-8", "--iptables-variant ebtables", "--log-level loud",
		"--log-format xml",
		"--healthz-bind-address nowhere", "--udp-max-sessions 0", "--drain-timeout -1s",
	} {
		if !strings.Contains(out, flag) {
			t.Errorf("no error about %s in:\n%s", flag, out)
		}
	}
	for args, want := range map[string]string{
		"--no-such-flag":         "no-such-flag",
		"--drain-timeout=soon":   "drain-timeout",
		"serve":                  "serve",
		"cleanup --log-level=no": "--log-level no",
	} {
		if out := run(strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("portald %s prints %s, want an error about %s", args, out, want)
		}
	}
	if b.Rules() != before {
		t.Error("bad flags changed rules")
	}
}

// portald reports what is missing on the host in one line.
func TestMissingOnTheHost(t *testing.T) {
	b := bed.New(t, "env", "setpriv")
	path := b.WriteManifest(bed.Manifest, b.Cart(0))
	for what, line := range map[string][]string{
		"iptables":  {"env", "PATH=/nowhere", bed.Portald},
		"NET_ADMIN": {"setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", bed.Portald},
	} {
		_, err := b.Try(b.Node, line[0], append(line[1:], "--manifests", path, "--metrics-bind-address=",
			"--healthz-bind-address=")...)
		if err == nil {
			t.Errorf("portald ran without %s", what)
			continue
		}
		lines := ""
		for l := range strings.Lines(err.Error()) {
			if strings.HasPrefix(l, "portald: ") {
				lines += l
			}
		}
		if !strings.Contains(lines, what) || strings.Count(lines, "\n") > 1 ||
			!strings.Contains(err.Error(), "exit status 1") {
			t.Errorf("without %s portald prints %q, want one line that names it, of\n%v", what, lines, err)
		}
	}
}

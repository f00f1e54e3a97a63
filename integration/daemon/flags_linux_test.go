package daemon

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"
)

// Every mistake is named at once, in words, and nothing is touched.
func TestBadFlags(t *testing.T) {
	b := bed.New(t)
	before := b.Rules()
	run := func(args ...string) string {
		t.Helper()
		out, err := b.Try(b.Node, bed.Portald, args...)
		if err == nil || !strings.Contains(err.Error(), "exit status 1") {
			t.Errorf("portald %v: %v, want exit status 1", args, err)
		}
		return fmt.Sprint(out, err)
	}
	said := run("--connection-log-format=xml", "--nodeport-addresses=here", "--external-ip-cidrs=10.0.0.0/99",
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
		if !strings.Contains(said, flag) {
			t.Errorf("nothing about %s in:\n%s", flag, said)
		}
	}
	for args, want := range map[string]string{
		"--no-such-flag":         "no-such-flag",
		"--drain-timeout=soon":   "drain-timeout",
		"serve":                  "serve",
		"cleanup --log-level=no": "--log-level no",
	} {
		if said := run(strings.Fields(args)...); !strings.Contains(said, want) {
			t.Errorf("portald %s says %s, want something about %s", args, said, want)
		}
	}
	if b.Rules() != before {
		t.Error("bad flags changed rules")
	}
}

// What is missing on the host is named in one line.
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
			t.Errorf("it ran without %s", what)
			continue
		}
		said := ""
		for l := range strings.Lines(err.Error()) {
			if strings.HasPrefix(l, "portald: ") {
				said += l
			}
		}
		if !strings.Contains(said, what) || strings.Count(said, "\n") > 1 || !strings.Contains(err.Error(), "exit status 1") {
			t.Errorf("without %s it says %q of\n%v", what, said, err)
		}
	}
}

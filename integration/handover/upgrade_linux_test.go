package handover

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

var landed = flag.String("from", "", "the version that is upgraded from, tag or commit; by default .ci/version-before")

// noHistory is the exit status of .ci/landed in a checkout that cannot have an older version, such as an archive.
const noHistory = 3

// before returns the program of the version before. Without it the test is skipped, or fails under REQUIRE_ALL=1 where
// the checkout has a history.
func before(t *testing.T) string {
	t.Helper()
	from := *landed
	if from == "" {
		name, err := os.ReadFile("../../.ci/version-before")
		if err != nil {
			t.Fatal(err)
		}
		from = strings.TrimSpace(string(name))
	}
	program, err := built(from)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == noHistory {
		t.Skipf("needs portald of %s: %v", from, err)
	}
	if err != nil {
		topology.Lack(t, "needs portald of %s: %v", from, err)
	}
	return program
}

// built builds a version once for all tests.
var built = func() func(string) (string, error) {
	var mu sync.Mutex
	programs := map[string]string{}
	return func(revision string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if is := programs[revision]; is != "" {
			return is, nil
		}
		cmd := exec.Command("../../.ci/landed", revision)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("%s: %w", strings.TrimSpace(said.String()), err)
		}
		programs[revision] = strings.TrimSpace(string(out))
		return programs[revision], nil
	}
}()

// From the version before to this one and back: connections of all kinds stay open across both, new ones and datagrams
// get through, and when the older one is stopped, only the rules from before both are left.
func TestUpgradeAndBack(t *testing.T) {
	old := before(t)
	for _, m := range bed.Modes() {
		t.Run(m.Name, func(t *testing.T) { upgradeAndBack(bed.New(t, "nft"), m, old) })
	}
}

func upgradeAndBack(b *bed.Bed, m bed.Mode, old string) {
	empty := everything(b)
	b.Program = old
	l := underLoad(b, m.Args...)
	l.restarts = 2
	older := everything(b)
	for _, program := range []string{bed.Portald, old} {
		b.Program = program
		l.client.tell(restart)
		next := l.daemon.Succeed()
		if code := l.daemon.Exit(); code != 0 {
			b.Errorf("a predecessor ended with code %d", code)
		}
		next.WaitReady()
		l.client.tell(rest)
		time.Sleep(between)
		log := next.Log.String()
		b.Log(lineWith(log, "Took over from "))
		if !strings.Contains(log, "Took over from ") {
			b.Errorf("%s began anew:\n%s", program, log)
		}
		l.daemon = next
	}
	if now := everything(b); now != older {
		b.Errorf("after the way there and back the rules are:\n%s\nthey were:\n%s", now, older)
	}
	r, ends := l.end()
	show(b.T, l.size, r)
	checkStreams(b.T, l.size, r, ends)
	checkSpells(b.T, l.size, r)
	b.On(b.Node, old, "cleanup")
	if left := everything(b); left != empty {
		b.Errorf("the older version leaves rules:\n%s\nbefore it all were:\n%s", left, empty)
	}
}

// standing matches a chain of iptables-nft that has no rule, and bare a table of such chains alone: they stay when the
// last rule goes, whoever wrote it, and let everything through.
var (
	standing = regexp.MustCompile(
		`(?m)^\tchain (PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING) \{\n\t\ttype .* policy accept;\n\t\}\n\n?`)
	bare = regexp.MustCompile(`(?m)^table ip6? (filter|nat|mangle|raw|security) \{\n\}\n`)
)

// everything is all rules of the node.
func everything(b *bed.Bed) string {
	b.Helper()
	nft := b.On(b.Node, "nft", "--stateless", "list", "ruleset")
	return b.Rules() + bare.ReplaceAllString(standing.ReplaceAllString(nft, ""), "")
}

// What the older version has a keeper hold, the newer goes on with after a crash, and what the newer has it hold the
// older does, with the keeper of either.
func TestKeeperOfAnotherVersion(t *testing.T) {
	old := before(t)
	for _, k := range []struct{ name, program string }{{"older", old}, {"newer", bed.Portald}} {
		t.Run(k.name, func(t *testing.T) {
			b := bed.New(t)
			b.ServePods(0)
			b.Program = k.program
			_, socket := keeper(b)
			b.Program = old
			d := b.Start(b.Cart(0), "--keep-socket="+socket)
			c, r, _ := b.Open(bed.HostPort(bed.IP4, 80))
			for _, program := range []string{bed.Portald, old} {
				awaitKept(d, 1)
				b.Program = program
				d = kill(d)
				if err := bed.Echoes(c, r); err != nil {
					t.Errorf("the open connection: %v\n%s", err, d.Log.String())
				}
				d.WaitReady()
			}
			awaitKept(d, 1)
		})
	}
}

// A version that is missing is named, with the remedy.
func TestNoVersionBefore(t *testing.T) {
	if _, err := os.Stat("../../.ci/landed"); err != nil {
		topology.Lack(t, "needs the sources: %v", err)
	}
	for revision, want := range map[string]string{
		"v0.0.0-none":           "git fetch --tags",
		strings.Repeat("e", 40): "git fetch --unshallow",
	} {
		if _, err := built(revision); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", revision, err, want)
		}
	}
}

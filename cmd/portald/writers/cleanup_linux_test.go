package writers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/cmd/portald/config"
	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal/service"
)

func TestMain(m *testing.M) { netnstest.Main(m) }

// Rules that cannot be removed, since another program holds the lock of iptables, are an error and no success.
func TestCleanupWithoutTheLock(t *testing.T) {
	if _, err := exec.LookPath("iptables-legacy"); err != nil {
		netnstest.Missing(t, "needs iptables-legacy (Debian package iptables)")
	}
	netnstest.Enter(t)
	lock, err := os.Create(filepath.Join(t.TempDir(), "xtables.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	t.Setenv("XTABLES_LOCKFILE", lock.Name())
	legacy := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "iptables-legacy", append(args, "-t", "nat")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	legacy("-N", ownChains+"-SERVICES")
	legacy("-A", "OUTPUT", "-j", ownChains+"-SERVICES")
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	cfg := &config.Config{
		Writer: IPTables, Mode: service.ModeUserspace, ProxyPorts: inet.PortRange{First: 11000, Last: 29999},
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := Cleanup(ctx, cfg, discard()); !Busy(err) || ctx.Err() == nil {
		t.Errorf("while another program holds the lock: %v", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if rules := legacy("-S"); !strings.Contains(rules, ownChains) {
		t.Errorf("the rules are gone:\n%s", rules)
	}
	if err := Cleanup(t.Context(), cfg, discard()); err != nil {
		t.Error(err)
	}
	if rules := legacy("-S"); strings.Contains(rules, ownChains) {
		t.Errorf("rules are left:\n%s", rules)
	}
}

// A daemon that cannot tell its own variant of iptables removes nothing: its own rules may be in any. One that does not
// serve the node any more removes nothing either.
func TestCleanupOthersInDoubt(t *testing.T) {
	for _, command := range []string{"iptables-nft", "iptables-legacy"} {
		if _, err := exec.LookPath(command); err != nil {
			netnstest.Missing(t, "needs %s (Debian package iptables)", command)
		}
	}
	netnstest.Enter(t)
	rules := func() string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "iptables-nft", "-t", "nat", "-S").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	w := exec.CommandContext(t.Context(), "iptables-nft", "-t", "nat", "-N", ownChains+"-GUARD")
	if out, err := w.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cleanup := func(variant string, owns bool) {
		cfg := &config.Config{
			Writer: IPTables, IPTablesVariant: variant, Mode: service.ModeUserspace,
			ProxyPorts: inet.PortRange{First: 11000, Last: 29999},
		}
		CleanupOthers(t.Context(), cfg, func() bool { return owns }, discard())
	}
	for _, c := range []struct {
		variant string // of the daemon
		owns    bool
		removes bool
	}{{"none", true, false}, {"legacy", false, false}, {"nft", true, false}, {"legacy", true, true}} {
		if cleanup(c.variant, c.owns); strings.Contains(rules(), ownChains) == c.removes {
			t.Errorf("a daemon that writes %q and serves the node: %t, removes rules of nft: %t, want %t",
				c.variant, c.owns, !c.removes, c.removes)
		}
	}
}

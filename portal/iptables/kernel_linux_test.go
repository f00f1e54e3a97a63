package iptables

import (
	"bytes"
	"context"
	"net/netip"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal/portaltest"
)

func TestMain(m *testing.M) { netnstest.Main(m) }

// variants are the command sets to test, each with the tools it needs.
func variants(t testing.TB, each func(variant string)) {
	for _, variant := range []string{"nft", "legacy"} {
		needed := ipv6().commandName(variant, "restore")
		if _, err := exec.LookPath(needed); err != nil {
			netnstest.Missing(t, "needs %s (Debian package iptables)", needed)
		}
		each(variant)
	}
}

// lockFile points the legacy variant to a lock of the test's own: /run belongs to the host, and without root cannot be
// written to.
func lockFile(t testing.TB) {
	t.Setenv("XTABLES_LOCKFILE", filepath.Join(t.TempDir(), "xtables.lock"))
}

func TestKernel(t *testing.T) {
	lockFile(t)
	variants(t, func(variant string) {
		t.Run(variant, func(t *testing.T) {
			portaltest.Run(t, true, func(t *testing.T) portaltest.Subject {
				netnstest.Enter(t)
				return subject(platform.Run, richOptions(nil, variant))
			})
		})
	})
}

// Rules are written as iptables-save prints them, or every audit would raise a false alarm.
func TestKernelPrintsWhatWasWritten(t *testing.T) {
	lockFile(t)
	variants(t, func(variant string) {
		some := richOptions(nil, variant)
		some.ProxyAddresses = addresses(nodeAddress, "fd00:2::1")
		for _, text := range []string{"192.0.2.1/32", "64.0.0.0/2", "fd00::/8"} {
			some.NodePortAddresses = append(some.NodePortAddresses, netip.MustParsePrefix(text))
		}
		for _, o := range []Options{testOptions(nil, variant), some} {
			t.Run(variant, func(t *testing.T) {
				netnstest.Enter(t)
				w := newWriter(t, o)
				if err := w.Replace(t.Context(), goldenPortals()); err != nil {
					t.Fatal(err)
				}
				if err := w.Audit(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

// accepted feeds a script to the real iptables-restore --test of each variant.
func accepted(t *testing.T, f family, script []byte) {
	t.Helper()
	lockFile(t)
	netnstest.Enter(t)
	variants(t, func(variant string) {
		restore := f.commandName(variant, "restore")
		if _, err := platform.Run(context.Background(), restore, []string{"--noflush", "--test"}, script); err != nil {
			t.Error(err)
		}
	})
}

func TestNewFindsTheCommands(t *testing.T) {
	lockFile(t)
	netnstest.Enter(t)
	o := testOptions(nil, "")
	o.Log = t.Logf
	if w := newWriter(t, o); len(w.hosts) != 2 {
		t.Errorf("%d families are served, want 2", len(w.hosts))
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := New(t.Context(), o); err == nil {
		t.Error("no error without any iptables")
	} else {
		t.Log(err)
	}
}

// A host whose earlier run marked replies is rid of that, and one that never did is not given the table.
func TestKernelWithoutMarks(t *testing.T) {
	lockFile(t)
	variants(t, func(variant string) {
		t.Run(variant, func(t *testing.T) {
			netnstest.Enter(t)
			for _, marked := range []bool{false, true} {
				if marked {
					if err := newWriter(t, richOptions(nil, variant)).Replace(t.Context(), nil); err != nil {
						t.Fatal(err)
					}
				}
				if err := newWriter(t, testOptions(nil, variant)).Replace(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				for _, f := range []family{ipv4(), ipv6()} {
					all, err := platform.Run(t.Context(), f.commandName(variant, "save"), nil, nil)
					if err != nil {
						t.Fatal(err)
					}
					if text := section(all, mangleTable); bytes.Contains(text, []byte("PORTALD")) || !marked && text != nil {
						t.Errorf("%s, marked before: %t: the table mangle holds\n%s", f.ip.String(), marked, text)
					}
				}
			}
		})
	})
}

package iptables

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/portald/portald/platform/netnstest"
)

// By the real commands: the choice follows kubelet's chain, stays where a Writer wrote, and makes no tables.
func TestChooseOnTheKernel(t *testing.T) {
	lockFile(t)
	variants(t, func(variant string) {
		t.Run(variant, func(t *testing.T) {
			netnstest.Enter(t)
			run := func(name string, args ...string) string {
				t.Helper()
				out, err := exec.CommandContext(t.Context(), name, args...).Output()
				if err != nil {
					t.Fatal(name, args, err)
				}
				return string(out)
			}
			choice := func() Choice {
				t.Helper()
				c, err := Choose(t.Context(), testOptions(nil, ""))
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			choice()
			for _, kind := range []string{"nft", "legacy"} {
				if installed := run("iptables-" + kind + "-save"); strings.Contains(installed, "*") {
					t.Errorf("a look made tables:\n%s", installed)
				}
			}
			w := newWriter(t, testOptions(nil, variant))
			if err := w.Replace(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if c := choice(); c.Variant != variant || !strings.Contains(c.Why, "earlier run") {
				t.Errorf("with rules of ours: %+v", c)
			}
			other := map[string]string{"nft": "legacy", "legacy": "nft"}[variant]
			run("iptables-"+other, "-t", "mangle", "-N", "KUBE-KUBELET-CANARY")
			if c := choice(); c.Variant != other {
				t.Errorf("kubelet uses %s: %+v", other, c)
			}
		})
	})
}

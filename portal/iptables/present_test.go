package iptables

import (
	"context"
	"slices"
	"testing"
)

// A look tells portald's rules from kube-proxy's with the same names, and does nothing that makes a table.
func TestLook(t *testing.T) {
	host := newFake()
	o := testOptions(host.run, "")
	o.Prefix = kubePrefix
	look := func(when string, want Leftovers) {
		t.Helper()
		only := o
		only.Run = func(ctx context.Context, name string, args []string, stdin []byte) ([]byte, error) {
			if !slices.Contains([]string{"iptables-save", "ip6tables-save"}, name) {
				t.Errorf("%s: runs %s %v", when, name, args)
			}
			return host.run(ctx, name, args, stdin)
		}
		if got, err := Look(t.Context(), only); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", when, got, err, want)
		}
	}
	look("nothing there", Leftovers{})
	restore := func(text string) {
		if _, err := host.run(t.Context(), "iptables-restore", []string{"--noflush"}, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	restore("*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-ABCDEFGHIJKLMNOP - [0:0]\nCOMMIT\n")
	look("kube-proxy's", Leftovers{Chains: true})
	w := newWriter(t, o)
	if err := w.Replace(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	look("portald's", Leftovers{Chains: true, Written: true})
	if err := w.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	look("cleaned up", Leftovers{})
}

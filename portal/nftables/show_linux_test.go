package nftables

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/portald/portald/platform"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
)

// Where nft dies, Show tells of it, and finds by netlink what it otherwise finds: rules, and what is missing.
func TestShowWithoutNFT(t *testing.T) {
	needNFT(t)
	netnstest.Enter(t)
	o, dies := testOptions(), false
	o.Run = func(ctx context.Context, name string, args []string, stdin []byte) ([]byte, error) {
		if dies {
			name, args = "sh", []string{"-c", "kill -SEGV $$"}
		}
		return platform.Run(ctx, name, args, stdin)
	}
	w := newWriter(t, o)
	portals := append(portaltest.SitePortals(), allSpreads()...)
	if err := w.Replace(t.Context(), portals); err != nil {
		t.Fatal(err)
	}
	by := func(nftDies bool) portal.Shown {
		dies = nftDies
		shown, err := w.Show(t.Context(), portals)
		if said := err != nil && strings.Contains(err.Error(), "signal: segmentation fault"); said != nftDies {
			t.Errorf("nft dies: %v, and Show says: %v", nftDies, err)
		}
		return shown
	}
	whole, rest := by(false), by(true)
	if len(whole.Missing)+len(rest.Missing) > 0 {
		t.Errorf("missing: %q, without nft %q", whole.Missing, rest.Missing)
	}
	// The words of nft differ from portald's, as in "0" for "offset 0".
	if with, without := perPlace(whole), perPlace(rest); !maps.Equal(with, without) {
		t.Errorf("it shows so many rules with nft, and without:\n%v\n%v", with, without)
	}
	change := "delete element ip portald redirect-ips { 10.96.0.1 . tcp . 80 }\n"
	if _, err := runNFT(t.Context(), change, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	if missing := by(true).Missing; len(missing) != 1 || !strings.Contains(missing[0], "redirect-ips lacks 10.96.0.1") {
		t.Errorf("of a deleted element it says %q", missing)
	}
}

func perPlace(shown portal.Shown) map[string]int {
	out := map[string]int{}
	for _, r := range shown.Rules {
		out[r.Place]++
	}
	return out
}

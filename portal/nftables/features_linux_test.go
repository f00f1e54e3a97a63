package nftables

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal/nftables/nft"
)

// This kernel has all features, and the trial leaves nothing in it.
func TestFeatureTrial(t *testing.T) {
	needNFT(t)
	netnstest.Enter(t)
	before, err := runNFT(context.Background(), "", "list", "ruleset")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w := newWriter(t, testOptions())
	t.Logf("took %v", time.Since(began))
	if after, err := runNFT(context.Background(), "", "list", "ruleset"); err != nil || string(after) != string(before) {
		t.Errorf("%v, left over: %s", err, after)
	}
	for _, table := range w.tables {
		for _, f := range features(table.rules) {
			if err := table.kernel.try(f); err != nil {
				t.Errorf("%s alone: %v", f.what, err)
			}
		}
		strange := features(table.rules)[0]
		strange.chain.Hook = nft.At("strange", "forward", 0)
		if err := table.kernel.try(strange); err == nil {
			t.Error("a kind of chain that no kernel has is taken")
		}
		if _, err := w.tables[0].kernel.conn.Generation(); err != nil {
			t.Errorf("the next question: %v", err)
		}
	}
}

// Every feature that a kernel lacks is named, and no other.
func TestMissingFeatures(t *testing.T) {
	o := testOptions()
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	r, err := o.rules(nft.IPv4())
	if err != nil {
		t.Fatal(err)
	}
	oldKernel := func(some ...feature) error {
		for _, f := range some {
			if strings.Contains(f.what, "nft_fib") || strings.Contains(f.what, "nft_numgen") {
				return syscall.ENOENT
			}
		}
		return nil
	}
	lacking, err := missing(features(r), oldKernel)
	want := "address types (nft_fib), random numbers (nft_numgen)"
	if got := strings.Join(lacking, ", "); got != want || !errors.Is(err, syscall.ENOENT) {
		t.Errorf("lacks %s, %v", got, err)
	}
	if lacking, err = missing(features(r), func(...feature) error { return nil }); lacking != nil || err != nil {
		t.Errorf("a kernel with all features lacks %s, %v", lacking, err)
	}
}

package nftables

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/nftables/layout"
	"github.com/portald/portald/portal/nftables/nft"
	"github.com/portald/portald/portal/service"
)

// A transaction that is to delete what nothing leads to any more is counted when it fails, and that fails the Update.
func TestCleanupFails(t *testing.T) {
	needNFT(t)
	netnstest.New(t).Must(func() error {
		failed := map[inet.Family]int{}
		o := testOptions()
		o.CleanupFailed = func(f inet.Family) { failed[f]++ }
		w := newWriter(t, o)
		at := service.Frontend{Addr: netip.MustParseAddrPort("10.96.0.9:80"), Protocol: inet.TCP}
		p := portal.Portal{Frontend: at, Owner: service.PortName{Name: "own", Protocol: inet.TCP}, Target: portal.Spread{
			Pool: &portal.Pool{Cluster: endpoints("10.244.0.2:8080")}}}
		if err := w.Replace(t.Context(), []portal.Portal{p}); err != nil {
			return err
		}
		gone := []portal.Change{{Frontend: at}}
		hairpins := layout.NewSets(nft.IPv4()).Hairpins.Name
		if _, err := runNFT(t.Context(), "", "flush", "set", "ip", w.opts.Table, hairpins); err != nil {
			return err
		}
		if err := w.Update(t.Context(), gone); err == nil || failed[inet.IPv4] != 1 || failed[inet.IPv6] != 0 {
			t.Errorf("an element that others deleted: %v, counted %v", err, failed)
		}
		if err := w.Replace(t.Context(), []portal.Portal{p}); err != nil {
			return err
		}
		if err := w.Update(context.Background(), gone); err != nil || failed[inet.IPv4] != 1 {
			return errors.Join(err, errors.New("counted without a failure"))
		}
		return nil
	})
}

package nftables

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
)

// Packets at portals that refuse are counted, through changes of others and of all.
func TestRefusals(t *testing.T) {
	portaltest.Refusals(t, portaltest.Without{}, func(refused func(portal.Refused)) (portal.Writer, error) {
		o := testOptions()
		o.Refused = refused
		return New(o)
	})
}

// The table of a version whose sets did not count, and had other names, is changed and not written from scratch.
func TestSetsThatDidNotCount(t *testing.T) {
	needNFT(t)
	netnstest.New(t).Must(func() error {
		w := newWriter(t, testOptions())
		portals := portaltest.SitePortals()
		w.Guard(portaltest.Guarded(true))
		if err := w.Replace(t.Context(), portals); err != nil {
			return err
		}
		for _, line := range []string{
			"add set ip %s refused-ips { type ipv4_addr . inet_proto . inet_service; }",
			"add element ip %s refused-ips { 10.96.0.1 . tcp . 81 }",
			"add rule ip %s refusals ip daddr . meta l4proto . th dport @refused-ips drop",
		} {
			if _, err := runNFT(t.Context(), "", strings.Fields(fmt.Sprintf(line, w.opts.Table))...); err != nil {
				return err
			}
		}
		handle := func() string {
			text, err := runNFT(t.Context(), "", "-a", "list", "tables")
			if err != nil {
				t.Error(err)
			}
			return string(text)
		}
		before := handle()
		if err := w.Replace(t.Context(), portals); err != nil {
			return err
		}
		if after := handle(); after != before {
			t.Errorf("another table:\n%swas\n%s", after, before)
		}
		return w.Audit(t.Context())
	})
}

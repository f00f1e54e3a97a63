package nftables

import (
	"context"
	"testing"
	"time"

	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal/portaltest"
)

// Changes of our tables are drift, changes of other tables are not.
func TestAuditLooksAtOursAlone(t *testing.T) {
	needNFT(t)
	netnstest.Enter(t)
	o := testOptions()
	w := newWriter(t, o)
	portals := portaltest.SitePortals()
	if err := w.Replace(t.Context(), append(portals, allSpreads()...)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		change string
		bad    bool
	}{
		{"add table ip others", false},
		{"add chain ip others c { type filter hook input priority 0; policy drop; }", false},
		{"delete table ip others", false},
		{"add rule ip portald guard counter", true},
		{"flush chain ip6 portald services", true},
		{"add chain ip portald nat-output { policy drop; }", true},
		{"add chain ip portald more", true},
		{"add set ip6 portald more { type ipv4_addr; }", true},
		{"add element ip portald cluster-ips { 10.0.0.1 }", true},
		{"delete element ip portald redirect-ips { 10.96.0.1 . tcp . 80 }", true},
		{"add table ip portald { flags dormant; }", true},
		{"delete table ip portald", true},
		{"flush ruleset", true},
	} {
		if _, err := runNFT(context.Background(), test.change+"\n", "-f", "-"); err != nil {
			t.Fatal(err)
		}
		if !w.Disturbed() {
			t.Errorf("%s: not disturbed", test.change)
		}
		err := w.Audit(t.Context())
		if (err != nil) != test.bad {
			t.Errorf("%s: %v", test.change, err)
		}
		if !test.bad && w.Disturbed() {
			t.Errorf("%s: disturbed after an audit", test.change)
		}
		if !test.bad {
			continue
		}
		t.Log(err)
		if err := w.Replace(t.Context(), portals); err != nil {
			t.Fatalf("after %s: %v", test.change, err)
		}
		if w.Disturbed() {
			t.Errorf("after %s: disturbed by a Replace of its own", test.change)
		}
		if err := w.Audit(t.Context()); err != nil {
			t.Errorf("after %s and Replace: %v", test.change, err)
		}
	}
}

// A comparison of all elements finds no drift after a Replace.
func TestAuditComparesElements(t *testing.T) {
	netnstest.Enter(t)
	w := newWriter(t, richOptions())
	if err := w.Replace(t.Context(), append(redirects(), allSpreads()...)); err != nil {
		t.Fatal(err)
	}
	w.tables[0].kernel.conn.Verified(0)
	for _, table := range w.tables {
		table.compared = time.Time{}
	}
	if err := w.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

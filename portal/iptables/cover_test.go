package iptables

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// tens are n addresses that have no cover in common.
func tens(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d.0.0.1 ", i+1)
	}
	return b.String()
}

func TestCovers(t *testing.T) {
	for _, c := range []struct{ name, at, want string }{
		{"none", "", ""},
		{"a small range", "10.43.0.1 10.43.255.9", "10.43.0.0/16"},
		{"a wide range", "10.96.0.1 10.111.3.4 10.100.0.1", "10.96.0.0/12"},
		{"ranges far apart", "192.0.2.1 10.96.0.1 172.18.0.1 172.19.0.1", "10.96.0.0/16 172.18.0.0/15 192.0.0.0/16"},
		{"as many as are worth it", tens(maxCovers), strings.ReplaceAll(tens(maxCovers), ".1 ", ".0/16 ")},
		{"more", tens(maxCovers + 1), "0.0.0.0/0"},
		{"IPv6", "fd00:10:96::1 fd00:10:96::f:1 2001:db8::1", "2001:db8::/112 fd00:10:96::/108"},
	} {
		tree := newTree()
		var all []service.Frontend
		for _, at := range strings.Fields(c.at) {
			f := service.Frontend{Addr: netip.AddrPortFrom(netip.MustParseAddr(at), 80), Protocol: inet.TCP}
			all = append(all, f)
			tree.put(portal.Portal{Frontend: f})
			tree.put(portal.Portal{Frontend: f}) // once more counts once
		}
		got := strings.Trim(fmt.Sprint(tree.covers()), "[]")
		if diff := cmp.Diff(strings.TrimSpace(c.want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		for _, f := range all {
			tree.remove(f)
		}
		if left := tree.covers(); len(left) > 0 {
			t.Errorf("%s: %v without a portal", c.name, left)
		}
	}
}

package daemon

import (
	"net/netip"
	"slices"
	"testing"
)

func TestWhereHealthCheckPortsAreServed(t *testing.T) {
	var here []netip.Addr
	for _, a := range []string{"127.0.0.1", "192.0.2.7", "::1", "fd00:9::7", "fe80::7"} {
		here = append(here, netip.MustParseAddr(a))
	}
	for _, test := range []struct{ ranges, want []string }{
		{[]string{"192.0.2.0/24", "192.0.0.0/8"}, []string{"192.0.2.7"}},
		{[]string{"192.0.2.0/24", "fd00::/8"}, []string{"192.0.2.7", "fd00:9::7"}},
		{[]string{"fd00::/8", "fe80::/10"}, []string{"fd00:9::7"}},
		{[]string{"0.0.0.0/0", "::/0"}, nil},
		{[]string{"192.0.2.0/24", "::/0"}, nil},
	} {
		var ranges []netip.Prefix
		for _, r := range test.ranges {
			ranges = append(ranges, netip.MustParsePrefix(r))
		}
		var got []string
		for _, a := range bindable(here, ranges) {
			got = append(got, a.String())
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("nodePortAddresses %q: at %q, want %q", test.ranges, got, test.want)
		}
	}
}

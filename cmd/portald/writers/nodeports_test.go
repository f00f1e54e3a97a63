package writers

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/portald/portald/cmd/portald/config"
)

// NodePorts are served at all addresses, at addresses in CIDRs, or at the first address of each family of the node.
func TestNodePortAddresses(t *testing.T) {
	addrs := func(texts ...string) (out []netip.Addr) {
		for _, text := range texts {
			out = append(out, netip.MustParseAddr(text))
		}
		return out
	}
	node := addrs("192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2")
	cidrs := []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	for _, c := range []struct {
		ask  config.NodePortAddresses
		own  netip.Addr
		node []netip.Addr
		want []string
	}{
		{ask: config.NodePortAddresses{All: true}, node: node},
		{ask: config.NodePortAddresses{CIDRs: cidrs}, node: node, want: []string{"198.51.100.0/24"}},
		{ask: config.NodePortAddresses{Primary: true}, node: node, want: []string{"192.0.2.1/32", "2001:db8::1/128"}},
		{ask: config.NodePortAddresses{Primary: true}, own: addrs("192.0.2.9")[0], node: node,
			want: []string{"192.0.2.9/32", "2001:db8::1/128"}},
		{ask: config.NodePortAddresses{Primary: true}, want: []string{"127.0.0.1/32"}},
		{ask: config.NodePortAddresses{Localhost: true}, node: node, want: []string{"127.0.0.1/32"}},
	} {
		var got []string
		for _, p := range NodePortAddresses(&config.Config{NodePorts: c.ask, NodeAddress: c.own}, c.node) {
			got = append(got, p.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.ask, got, c.want)
		}
	}
}

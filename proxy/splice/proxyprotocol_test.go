package splice

import (
	"net/netip"
	"testing"
)

func TestProxyHeader(t *testing.T) {
	for _, c := range []struct{ client, dst, want string }{
		{"192.0.2.2:4660", "10.96.0.10:80", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" +
			"\xc0\x00\x02\x02\x0a\x60\x00\x0a\x12\x34\x00\x50"},
		{"[fd00::2]:4660", "[fd00:10:96::a]:443", "\r\n\r\n\x00\r\nQUIT\n\x21\x21\x00\x24" +
			"\xfd\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02" +
			"\xfd\x00\x00\x10\x00\x96\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0a\x12\x34\x01\xbb"},
	} {
		got := proxyHeader(netip.MustParseAddrPort(c.client), netip.MustParseAddrPort(c.dst))
		if string(got) != c.want {
			t.Errorf("%s: got % x, want % x", c.client, got, c.want)
		}
	}
}

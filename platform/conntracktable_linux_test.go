package platform

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink/nl"
)

// Answers of the kernel are read without trust in their shape.
func FuzzFlowAnswer(f *testing.F) {
	client, local := netip.MustParseAddrPort("10.0.0.9:4000"), netip.MustParseAddrPort("10.0.0.1:11000")
	f.Add(flowRequest(nil, client, local))
	f.Add(flowRequest(nil, netip.MustParseAddrPort("[fd00::9]:4000"), netip.MustParseAddrPort("[fd00::1]:11000")))
	f.Add([]byte{20, 0, 0, 0, 2, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if dst, err := flowAnswer(b); err == nil && !dst.Addr().IsValid() {
			t.Errorf("an answer without an address is taken for %s", dst)
		}
	})
}

// A question is built of the same attributes as an answer: one that asks by the original tuple reads back.
func TestFlowAttributes(t *testing.T) {
	for _, c := range [][2]string{{"10.0.0.9:4000", "10.0.0.1:11000"}, {"[fd00::9]:4000", "[fd00::1]:11000"}} {
		client, local := netip.MustParseAddrPort(c[0]), netip.MustParseAddrPort(c[1])
		b := flowRequest(nil, client, local)
		b[22] = nl.CTA_TUPLE_ORIG // was the reply's
		if dst, err := flowAnswer(b); err != nil || dst != client {
			t.Errorf("read back %s, %v, want %s", dst, err, client)
		}
	}
}

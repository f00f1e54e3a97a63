package nftables

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/nfnl"
	"github.com/portald/portald/portal/service"
)

// statements are rules with each statement and each expression.
func statements(f family) []rule {
	s := f.newSets()
	clients := f.clients(service.PortName{Namespace: "shop", Name: "cart", Protocol: inet.TCP})
	addr, prefix := netip.MustParseAddr("192.0.2.1"), netip.MustParsePrefix("10.8.0.0/13")
	if f.ip == inet.IPv6 {
		addr, prefix = netip.MustParseAddr("2001:db8::1"), netip.MustParsePrefix("fd00:8::/61")
	}
	some := []netip.AddrPort{netip.AddrPortFrom(addr, 80), netip.AddrPortFrom(addr.Next(), 81)}
	client := key{f.saddr(), numgen(1, 7)}
	return []rule{
		{protocolIs(inet.TCP)},
		{protocolIs(inet.TCP, inet.UDP)},
		{newConnection(), translated(), confirmed()},
		{localAddress(true), localAddress(false)},
		{fromInterface("cni0", false, false), fromInterface("veth", true, true)},
		{protocolIs(inet.TCP), tcpSYN()},
		{marked(0x4000), mark(0x4000), unmark(0x4000)},
		transparentSocket(),
		{is(numgen(3, 0), 0)}, {is(counter(3), 0)}, {is(f.clientHash(3), 1)},
		{f.from(f.loopback, true), f.to(prefix, false)},
		{f.fromOutside(service.Merge([]netip.Prefix{f.loopback, prefix}))},
		{portRange{inet.UDP, 20000, 20999}},
		{elementOf(s.ips.plain), vmap{s.ips.chains}},
		{lookup{key: client, in: clients}, setUpdate{clients, client, time.Minute}},
		{redirect{mapping{s.ips.redirects}}},
		{dnatPort{addr, mapping{s.ips.redirects}}},
		{dnat{some[0]}},
		{f.dnatAny(service.Random, some)},
		{f.dnatAny(service.RoundRobin, some)},
		{f.dnatAny(service.SourceHash, some)},
		{masquerade{}},
		{reject{}},
		{reject{tcp: true}},
		{jump("a")}, {goTo("b")}, {drop()}, {backToCaller()},
	}
}

// testdata/statements.golden has the text of each statement above its expressions in the kernel.
func TestStatements(t *testing.T) {
	if one := binary.NativeEndian.Uint16([]byte{1, 0}); one != 1 {
		t.Skip("the golden file is of little-endian machines")
	}
	var b strings.Builder
	for _, f := range []family{ipv4(), ipv6()} {
		fmt.Fprintf(&b, "# %s\n", f.ip)
		for _, r := range statements(f) {
			var ids uint32
			fmt.Fprintf(&b, "%s\n%s", r.text(f), expressions(t, f.encode(r, &ids).expressions))
		}
	}
	const path = "testdata/statements.golden"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (-want +got; -update writes it anew):\n%s", path, diff)
	}
}

// expressions are the kernel's, each with its attributes.
func expressions(t *testing.T, list []byte) string {
	var b strings.Builder
	err := nfnl.Decode(list, func(d *nfnl.Decoder) {
		d.Do(func(list []byte) error {
			return nfnl.Decode(list, func(d *nfnl.Decoder) {
				if d.Type() == nfnl.NFTA_EXPR_NAME {
					fmt.Fprintf(&b, "\t%s", d.String())
					return
				}
				d.Do(func(list []byte) error {
					return nfnl.Decode(list, func(d *nfnl.Decoder) { fmt.Fprintf(&b, " %d=%x", d.Type(), d.Bytes()) })
				})
				b.WriteByte('\n')
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

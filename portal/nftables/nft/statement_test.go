package nft

import (
	"encoding/binary"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/nfnl"
)

var rewrite = flag.Bool("update", false, "write the golden file")

// statements are rules with each statement and each expression.
func statements(f Family) []Rule {
	k := Key{f.DAddr(), L4Proto(), DPort()}
	plain := &Set{Name: "plain-ips", Key: k}
	chains := &Set{Name: "service-ips", Key: k, Verdicts: true}
	redirects := &Set{Name: "redirect-ips", Key: k, Data: Key{DPort()}}
	clients := &Set{Name: "affinity-K3ITKCDVO4YEOYFH-shop/cart/tcp", Key: Key{f.SAddr(), Numgen(2, 0)}, Dynamic: true}
	addr, prefix := netip.MustParseAddr("192.0.2.1"), netip.MustParsePrefix("10.8.0.0/13")
	if f.IP == inet.IPv6 {
		addr, prefix = netip.MustParseAddr("2001:db8::1"), netip.MustParsePrefix("fd00:8::/61")
	}
	some := []netip.AddrPort{netip.AddrPortFrom(addr, 80), netip.AddrPortFrom(addr.Next(), 81)}
	client := Key{f.SAddr(), Numgen(1, 7)}
	return []Rule{
		{ProtocolIs(inet.TCP)},
		{ProtocolIs(inet.TCP, inet.UDP)},
		{NewConnection(), Translated(), Confirmed()},
		{LocalAddress(true), LocalAddress(false)},
		{FromInterface("cni0", false, false), FromInterface("veth", true, true)},
		{ProtocolIs(inet.TCP), TCPSYN()},
		{Marked(0x4000), Mark(0x4000), Unmark(0x4000)},
		TransparentSocket(),
		{Is(Numgen(3, 0), 0)}, {Is(Counter(3), 0)}, {Is(f.ClientHash(3), 1)},
		{f.From(f.Loopback, true), f.To(prefix, false)},
		{f.FromOutside(slices.SortedFunc(slices.Values([]netip.Prefix{f.Loopback, prefix}), netip.Prefix.Compare))},
		{DPortIn(inet.UDP, inet.PortRange{First: 20000, Last: 20999})},
		{ElementOf(plain), vmap{chains}},
		{lookup{key: client, in: clients}, setUpdate{clients, client, time.Minute}},
		{redirect{mapping{redirects}}},
		{dnatPort{addr, mapping{redirects}}},
		{dnat{some[0]}},
		{dnatMap{mapping{f.LiteralMap(Numgen(2, 0), some)}}},
		{dnatMap{mapping{f.LiteralMap(Counter(2), some)}}},
		{dnatMap{mapping{f.LiteralMap(f.ClientHash(2), some)}}},
		{masquerade{}},
		{reject{}},
		{reject{tcp: true}},
		{Jump("a")}, {Goto("b")}, {Drop()}, {Return()},
	}
}

// testdata/statements.golden has the text of each statement above its expressions in the kernel.
func TestStatements(t *testing.T) {
	if one := binary.NativeEndian.Uint16([]byte{1, 0}); one != 1 {
		t.Skip("the golden file is of little-endian machines")
	}
	var b strings.Builder
	for _, f := range []Family{IPv4(), IPv6()} {
		fmt.Fprintf(&b, "# %s\n", f.IP)
		for _, r := range statements(f) {
			var ids uint32
			fmt.Fprintf(&b, "%s\n%s", r.Text(f), expressions(t, f.encode(r, &ids).expressions))
		}
	}
	const path = "testdata/statements.golden"
	if *rewrite {
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

package service

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func TestMerge(t *testing.T) {
	for _, c := range []struct{ of, want []netip.Prefix }{
		{nil, nil},
		{prefixes("10.1.2.3/8"), prefixes("10.0.0.0/8")},
		{prefixes("10.1.0.0/16", "10.0.0.0/8", "10.1.0.0/16"), prefixes("10.0.0.0/8")},
		{prefixes("10.0.1.0/24", "10.0.0.0/24", "10.0.2.0/24"), prefixes("10.0.0.0/23", "10.0.2.0/24")},
		{prefixes("128.0.0.0/1", "::/1", "0.0.0.0/1", "8000::/1"), prefixes("0.0.0.0/0", "::/0")},
		{prefixes("0.0.0.0/0", "0.0.0.0/0", "::/128", "::1/128"), prefixes("0.0.0.0/0", "::/127")},
		{prefixes("10.0.0.1/32", "10.0.0.2/32", "10.0.0.3/32", "10.0.0.0/32"), prefixes("10.0.0.0/30")},
	} {
		if got := Merge(c.of); !slices.Equal(got, c.want) {
			t.Errorf("of %v: %v, want %v", c.of, got, c.want)
		}
	}
}

// Whatever the ranges, the merged ones have the same addresses.
func TestWithin(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	address := func() netip.Addr {
		if random.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, 0, 0, byte(random.IntN(256))})
		}
		return netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(random.IntN(256))})
	}
	for range 200 {
		var ranges []netip.Prefix
		for range random.IntN(20) {
			addr := address()
			ranges = append(ranges, netip.PrefixFrom(addr, addr.BitLen()-random.IntN(6)))
		}
		merged := Merge(ranges)
		for range 200 {
			addr := address()
			want := slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(addr) })
			if Within(merged, addr) != want {
				t.Fatalf("%s in %v, merged %v: want %t", addr, ranges, merged, want)
			}
		}
	}
}

// The lookup that the data path makes for each connection does not grow with the number of ranges.
func BenchmarkWithin(b *testing.B) {
	for _, n := range []int{1, 1_000, 100_000} {
		var ranges []netip.Prefix
		for i := range n {
			addr := netip.AddrFrom4([4]byte{10, byte(i >> 15), byte(i >> 7), byte(i << 1)})
			ranges = append(ranges, netip.PrefixFrom(addr, 32))
		}
		merged, addr := Merge(ranges), netip.MustParseAddr("10.0.3.7")
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Within(merged, addr)
			}
		})
	}
}

// A family without ranges is open, as with kube-proxy.
func TestAdmits(t *testing.T) {
	for _, c := range []struct {
		ranges []string
		admits map[string]bool
	}{
		{nil, map[string]bool{"192.0.2.1": true, "fd00::1": true}},
		{[]string{"10.0.0.0/8"}, map[string]bool{"10.1.2.3": true, "192.0.2.1": false, "fd00::1": true}},
		{[]string{"0.0.0.0/0"}, map[string]bool{"192.0.2.1": true, "fd00::1": true}},
		{[]string{"fd00::/16"}, map[string]bool{"192.0.2.1": true, "fd00::1": true, "fd01::1": false}},
		{[]string{"10.0.0.0/8", "fd00::/16"}, map[string]bool{"192.0.2.1": false, "10.0.0.1": true, "fd00::1": true,
			"fd01::1": false}},
	} {
		p := &Port{}
		for _, text := range c.ranges {
			p.SourceRanges = append(p.SourceRanges, netip.MustParsePrefix(text))
		}
		for client, want := range c.admits {
			if got := p.Admits(netip.MustParseAddr(client)); got != want {
				t.Errorf("%v admit %s: %t", c.ranges, client, got)
			}
		}
	}
}

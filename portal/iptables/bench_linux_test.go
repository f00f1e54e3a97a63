package iptables

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/proxy/service"
)

// clusterIPs are portals of n cluster IPs drawn at random from a /12.
func clusterIPs(n int) []portal.Portal {
	random := rand.New(rand.NewPCG(9, 9))
	drawn := map[uint32]struct{}{}
	for len(drawn) < n {
		drawn[random.Uint32N(1<<20)] = struct{}{}
	}
	var out []portal.Portal
	for low := range drawn {
		addr := netip.AddrFrom4([4]byte{10, 96 + byte(low>>16), byte(low >> 8), byte(low)})
		out = append(out, portal.Portal{
			Frontend: service.Frontend{Addr: netip.AddrPortFrom(addr, 80), Protocol: service.TCP},
			Owner:    name(fmt.Sprintf("service-%d", low), "http"),
			Target:   portal.Redirect{Port: portaltest.FirstPort + uint16(low%1000)},
		})
	}
	slices.SortFunc(out, func(a, b portal.Portal) int { return a.Frontend.Compare(b.Frontend) })
	return out
}

// BenchmarkKernel measures each operation at several sizes, so that a cost that grows with the number of portals shows.
func BenchmarkKernel(b *testing.B) {
	lockFile(b)
	variants(b, func(variant string) {
		for _, size := range []int{100, 1_000, 10_000} {
			for _, operation := range []string{"first", "again", "update", "audit"} {
				b.Run(fmt.Sprintf("%s/%s/%d", variant, operation, size), func(b *testing.B) {
					portaltest.Enter(b)
					benchmark(b, newWriter(b, testOptions(nil, variant)), operation, clusterIPs(size))
				})
			}
		}
	})
}

func benchmark(b *testing.B, w *Writer, operation string, portals []portal.Portal) {
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	must(w.Replace(b.Context(), portals))
	p := portals[0]
	for port := uint16(portaltest.FirstPort); b.Loop(); port++ {
		switch operation {
		case "first":
			b.StopTimer()
			must(w.Cleanup(b.Context()))
			b.StartTimer()
			must(w.Replace(b.Context(), portals))
		case "again":
			must(w.Replace(b.Context(), portals))
		case "update":
			p.Target = portal.Redirect{Port: 25000 + port%1000}
			must(w.Update(b.Context(), []portal.Change{{Frontend: p.Frontend, Portal: &p}}))
		case "audit":
			must(w.Audit(b.Context()))
		}
	}
}

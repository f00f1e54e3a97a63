package iptables

import (
	"fmt"
	"testing"

	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
)

// BenchmarkSpread is BenchmarkKernel for what the kernel spreads, over ten endpoints each.
func BenchmarkSpread(b *testing.B) {
	lockFile(b)
	variants(b, func(variant string) {
		for _, size := range []int{1_000, 10_000, 30_000} {
			for _, operation := range []string{"first", "again", "update", "audit"} {
				b.Run(fmt.Sprintf("%s/%s/%d", variant, operation, size), func(b *testing.B) {
					netnstest.Enter(b)
					o := testOptions(nil, variant)
					o.LocalDetector.Sources = prefixes("10.244.0.0/14")
					benchmark(b, newWriter(b, o), operation, spreads(size, 10))
				})
			}
		}
	})
}

// BenchmarkKernel measures each operation at several sizes, so that a cost that grows with the number of portals shows.
func BenchmarkKernel(b *testing.B) {
	lockFile(b)
	variants(b, func(variant string) {
		for _, size := range []int{100, 1_000, 10_000} {
			for _, operation := range []string{"first", "again", "update", "refuse", "audit"} {
				b.Run(fmt.Sprintf("%s/%s/%d", variant, operation, size), func(b *testing.B) {
					netnstest.Enter(b)
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
	_, spread := p.Target.(portal.Spread)
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
			if spread {
				p.Target = portal.Spread{Pool: poolOf(int(port), 10)}
			}
			must(w.Update(b.Context(), []portal.Change{{Frontend: p.Frontend, Portal: &p}}))
		case "refuse":
			refused := p
			refused.Target = portal.Reject{}
			for _, now := range []portal.Portal{refused, p} {
				must(w.Update(b.Context(), []portal.Change{{Frontend: p.Frontend, Portal: &now}}))
			}
		case "audit":
			must(w.Audit(b.Context()))
		}
	}
}

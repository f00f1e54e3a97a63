package nftables

import (
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/portaltest"
	"github.com/portald/portald/portal/service"
)

// clusterIPPortals are n ClusterIPs, each of which spreads over ten endpoints.
func clusterIPPortals(n int, sticky time.Duration) []portal.Portal {
	var out []portal.Portal
	for i := range n {
		addr := netip.AddrFrom4([4]byte{10, 96 + byte(i>>16), byte(i >> 8), byte(i)})
		out = append(out, portal.Portal{
			Frontend: service.Frontend{Addr: netip.AddrPortFrom(addr, 80), Protocol: inet.TCP},
			Owner: service.PortName{Namespace: "shop", Name: fmt.Sprintf("service-%d", i), Port: "http",
				Protocol: inet.TCP},
			Target: portal.Spread{Pool: pool(i, 10, sticky)},
		})
	}
	return out
}

func pool(i, n int, sticky time.Duration) *portal.Pool {
	p := &portal.Pool{Affinity: sticky}
	for k := range n {
		addr := netip.AddrFrom4([4]byte{10, 128 + byte(i>>16), byte(i >> 8), byte(i)})
		e := portal.Endpoint{Addr: netip.AddrPortFrom(addr, 8000+uint16(k)), MayHairpin: k == 0}
		p.Cluster = append(p.Cluster, e)
	}
	return p
}

// BenchmarkKernel measures each operation at several sizes, so that a cost that grows with the number of portals shows.
func BenchmarkKernel(b *testing.B) {
	for _, size := range []int{1_000, 10_000, 30_000} {
		for _, operation := range []string{"first", "again", "address", "endpoint", "class", "portal", "flip", "refuse",
			"audit", "audit-all"} {
			b.Run(fmt.Sprintf("%s/%d", operation, size), func(b *testing.B) {
				netnstest.Enter(b)
				benchmark(b, newWriter(b, testOptions()), operation, clusterIPPortals(size, 0))
			})
		}
	}
	for _, size := range []int{100, 1_000} {
		for _, operation := range []string{"first", "address"} {
			b.Run(fmt.Sprintf("affinity/%s/%d", operation, size), func(b *testing.B) {
				netnstest.Enter(b)
				benchmark(b, newWriter(b, testOptions()), operation, clusterIPPortals(size, time.Hour))
			})
		}
	}
}

func benchmark(b *testing.B, w *Writer, operation string, portals []portal.Portal) {
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	p := portals[0]
	if sticky := p.Target.(portal.Spread).Pool.Affinity; operation != "class" {
		portals[1].Target = portal.Spread{Pool: pool(1, 9, sticky)}
	}
	must(w.Replace(b.Context(), portals))
	update := func(target portal.Target) {
		p.Target = target
		must(w.Update(b.Context(), []portal.Change{{Frontend: p.Frontend, Portal: &p}}))
	}
	sticky := p.Target.(portal.Spread).Pool.Affinity
	start := cpuTime()
	defer func() { b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op") }() // machines may be busy
	for n := 0; b.Loop(); n++ {
		switch operation {
		case "first":
			b.StopTimer()
			must(w.Cleanup(b.Context()))
			b.StartTimer()
			must(w.Replace(b.Context(), portals))
		case "again":
			must(w.Replace(b.Context(), portals))
		case "address": // one endpoint in place of another
			other := pool(0, 10, sticky)
			other.Cluster[9].Addr = netip.AddrPortFrom(other.Cluster[9].Addr.Addr(), 9000+uint16(n%1000))
			update(portal.Spread{Pool: other})
		case "endpoint": // one less, one more
			update(portal.Spread{Pool: pool(0, 9+n%2, sticky)})
		case "class": // the same, where no other portal has as many
			update(portal.Spread{Pool: pool(0, 9+n%2, sticky)})
		case "portal":
			must(w.Update(b.Context(), []portal.Change{{Frontend: p.Frontend}}))
			update(p.Target)
		case "flip":
			update(portal.Redirect{Port: portaltest.FirstPort})
			update(portals[0].Target)
		case "refuse":
			update(portal.Reject{})
			update(portals[0].Target)
		case "audit":
			must(w.Audit(b.Context()))
		case "audit-all":
			w.tables[0].kernel.conn.Verified(0)
			must(w.Audit(b.Context()))
		}
	}
}

// cpuTime is the CPU time of this process, in user mode and in the kernel.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

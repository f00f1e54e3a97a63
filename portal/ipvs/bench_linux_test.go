package ipvs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netnstest"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// BenchmarkChange is one endpoint of one Service that comes or goes, among so many Services of ten endpoints.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			netnstest.Enter(b)
			needIPVS(b)
			w, err := open(b, nil)
			if err != nil {
				b.Fatal(err)
			}
			portals := crowd(n)
			start := time.Now()
			if err := w.Replace(context.Background(), portals); err != nil {
				b.Fatal(err)
			}
			first := time.Since(start)
			less := portals[n/2]
			pool := *less.Target.(portal.Spread).Pool
			pool.Cluster = pool.Cluster[1:]
			less.Target = portal.Spread{Pool: &pool}
			b.ResetTimer()
			for i := range b.N {
				p := &less
				if i%2 == 1 {
					p = &portals[n/2]
				}
				if err := w.Update(context.Background(), []portal.Change{{Frontend: p.Frontend, Portal: p}}); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(first.Seconds(), "s/first-replace")
			if err := w.Cleanup(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// crowd is Services of ten endpoints each.
func crowd(n int) (out []portal.Portal) {
	for i := range n {
		var endpoints []string
		for j := range 10 {
			endpoints = append(endpoints, fmt.Sprintf("10.%d.%d.%d:8080", 128+i/250, i%250, j+1))
		}
		out = append(out, spread(service.ClusterIP, fmt.Sprintf("10.%d.%d.%d:80", 96+i/60000, i/250%240, 1+i%250),
			inet.TCP, endpoints...))
	}
	return out
}

package traffic

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// tenEndpoints serves ten addresses, and returns the Service and the host of the first, which has it alone. Each
// answers with its address.
func tenEndpoints(b *bed.Bed) (cart bed.Service, first netip.Addr, of *topology.Host) {
	b.Helper()
	cart, of = b.Cart(), b.Net.Pod(1)
	cart.Ports = cart.Ports[:1]
	at := b.Net.Pod(0).IPv4.As4()
	for i := range 10 {
		at[3] = byte(210 + i)
		host, addr := b.Net.Pod(0), netip.AddrFrom4(at)
		if i == 0 {
			host, first = of, addr
		}
		b.On(host, "ip", "addr", "add", addr.String()+"/32", "dev", "eth0")
		way := strings.Fields(b.On(b.Node, "ip", "route", "get", host.IPv4.String())) // ADDRESS dev NAME …
		b.On(b.Node, "ip", "route", "add", addr.String(), "via", host.IPv4.String(), "dev", way[2], "onlink")
		cart.Pods = append(cart.Pods, bed.Endpoint{Pod: fmt.Sprint("pod", i), V4: addr})
		b.ServeAt(host, bed.HostPort(addr.String(), bed.PodPort), bed.NamesItself(addr.String()))
	}
	return cart, first, of
}

// spell is how clients fare for some time.
type spell struct {
	of     map[string]int // connections by the endpoint that answered
	all    int
	failed []error
}

func (s *spell) share(of netip.Addr) float64 { return float64(s.of[of.String()]) / float64(s.all) }

// clients have eight of them connect one after the other, for some time.
func clients(b *bed.Bed, to string, long time.Duration) *spell {
	s := &spell{of: map[string]int{}}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for end := time.Now().Add(long); time.Now().Before(end); {
				a, err := bed.Ask(b.Client, "tcp", to)
				mu.Lock()
				s.all++
				s.of[a.Pod]++
				if err != nil {
					s.failed = append(s.failed, err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return s
}

// One of ten endpoints is a black hole for some seconds. After the first three dials of it hardly any connection waits,
// none fails, and soon after its return it has its share.
func TestBlackHole(t *testing.T) {
	bed.NeedsLinux(t, "pods with several addresses")
	b := bed.New(t)
	cart, hole, of := tenEndpoints(b)
	d := b.Start(cart)
	to := bed.HostPort(bed.IP4, 80)
	if s := clients(b, to, time.Second); s.share(hole) < 0.09 || s.share(hole) > 0.11 {
		t.Fatalf("%d of %d connections go to one of ten", s.of[hole.String()], s.all)
	}
	swallow := []string{"-d", hole.String(), "-p", "tcp", "--dport", fmt.Sprint(bed.PodPort), "-j", "DROP"}
	b.On(of, "iptables", append([]string{"-I", "INPUT"}, swallow...)...)
	const seconds = 7
	s := clients(b, to, seconds*time.Second)
	const mostWait = 8 + seconds // each client before the ejection, and a probe a second: balance.probeEvery
	waited := 0
	for _, r := range d.Records() {
		if len(r.Attempts) > 1 && strings.HasPrefix(r.Attempts[0].Endpoint, hole.String()+":") {
			waited++
		}
	}
	t.Logf("while it is one: %d of %d connections waited", waited, s.all)
	if len(s.failed) > 0 || s.of[hole.String()] > 0 || waited > mostWait {
		t.Errorf("%d of %d connections failed, %d waited, want %d at most: %v", len(s.failed), s.all, waited, mostWait,
			s.failed)
	}
	if got := d.Metric("portald_endpoints_ejected"); got != 1 {
		t.Errorf("%v endpoints are ejected", got)
	}
	line := b.Line("explain", "shop/cart", "--socket", d.Socket)
	const why = "ejected, since it failed connections (timed_out"
	if out := b.On(b.Node, line[0], line[1:]...); !strings.Contains(out, why) {
		t.Errorf("not explained:\n%s", out)
	}
	d.RecordWhere("of the ejection", func(r bed.Record) bool {
		return len(r.Attempts) > 1 && r.Attempts[0].Ejection == "ejected" && r.Outcome == "ok"
	})
	d.RecordWhere("of the choice without it", func(r bed.Record) bool { return r.Ejected == 1 && len(r.Attempts) == 1 })

	b.On(of, "iptables", append([]string{"-D", "INPUT"}, swallow...)...)
	clients(b, to, 2*time.Second)
	if s := clients(b, to, time.Second); s.share(hole) < 0.09 || s.share(hole) > 0.11 || len(s.failed) > 0 {
		t.Errorf("two seconds after its return it has %d of %d connections, %v", s.of[hole.String()], s.all, s.failed)
	}
	d.RecordWhere("of the probe", func(r bed.Record) bool {
		return len(r.Attempts) == 1 && r.Attempts[0].Ejection == "probe"
	})
}

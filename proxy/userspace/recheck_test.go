package userspace

import (
	"context"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/balance"
)

// Endpoints that dials do not reach are dialled, so many at a time, while clients use the service port. One that
// answers is tried by the next connection.
func TestRecheck(t *testing.T) { synctest.Test(t, testRecheck) }

func testRecheck(t *testing.T) {
	var mu sync.Mutex
	dials, answers := map[netip.AddrPort]int{}, map[netip.AddrPort]bool{}
	c := New(Options{Reaches: func(_ context.Context, at netip.AddrPort) error {
		mu.Lock()
		defer mu.Unlock()
		dials[at]++
		if answers[at] {
			return nil
		}
		return syscall.ECONNREFUSED
	}})
	name := service.PortName{Name: "cart", Protocol: inet.TCP}
	b := balance.New(c.endpoints, name, balance.Options{})
	var list []netip.AddrPort
	for i := range byte(200) {
		list = append(list, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, 0, i}), 80))
	}
	b.SetEndpoints(list)
	client, policy := netip.MustParseAddr("10.9.9.9"), service.DefaultPolicy()
	pick := func() *balance.Endpoint { return b.Pick(client, nil, &policy).Endpoint }
	for c.endpoints.Ejections() < 100 {
		if e := pick(); e.Addr().Addr().As4()[3] < 100 {
			e.Dialled(syscall.ECONNREFUSED, 0)
		} else {
			e.Dialled(nil, 0)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go c.Recheck(ctx)
	time.Sleep(time.Second)
	total := 0
	mu.Lock()
	for at, n := range dials {
		if total += n; at.Addr().As4()[3] >= 100 {
			t.Errorf("%s is dialled, and works", at)
		}
	}
	if total != rechecksAtOnce {
		t.Errorf("%d dials, want %d", total, rechecksAtOnce)
	}
	answers[list[7]] = true
	mu.Unlock()
	back := false
	for began := time.Now(); !back && time.Since(began) < 20*time.Second; time.Sleep(100 * time.Millisecond) {
		p := b.Pick(client, nil, &policy)
		back = p.Probe && p.Endpoint.Addr() == list[7]
		if p.Probe && !back {
			p.Endpoint.Dialled(syscall.ECONNREFUSED, 0)
		}
	}
	if !back {
		t.Error("one that answers is not tried")
	}
	time.Sleep(20 * time.Second)
	mu.Lock()
	clear(dials)
	mu.Unlock()
	time.Sleep(20 * time.Second)
	mu.Lock()
	defer mu.Unlock()
	if len(dials) != 0 {
		t.Error("endpoints are dialled although no client uses them")
	}
}

package splice

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/portald/portald/proxy/service"
)

func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// fill has a client take connections until it gets no more, and returns how many.
func fill(a *Account, h *holder) (n int) {
	for a.takeConnection(h) {
		n++
	}
	return n
}

// Who wants all there is leaves enough for others, and Services, and clients of one, come to hold the same.
func TestAccountShares(t *testing.T) {
	a := NewAccount(Budget{Descriptors: 20000})
	one := a.tenant(service.Name{Namespace: "shop", Name: "one"})
	two := a.tenant(service.Name{Namespace: "shop", Name: "two"})
	first, second := a.holder(one, address(1)), a.holder(one, address(2))
	greedy := fill(a, first)
	if greedy < 7500 || greedy > 8500 {
		t.Errorf("a lone client got %d of 10000", greedy)
	}
	if n := fill(a, second); n < 700 {
		t.Errorf("the next client of the Service got %d", n)
	}
	if n := fill(a, a.holder(two, address(1))); n < 700 {
		t.Errorf("the next Service got %d", n)
	}
	for i := range 50 { // and whoever comes still gets in
		s := a.tenant(service.Name{Namespace: "late", Name: fmt.Sprint(i)})
		if !a.takeConnection(a.holder(s, address(1))) {
			t.Fatalf("Service %d was refused", i)
		}
	}
	for range greedy { // connections end, and those who want more come to hold the same
		a.giveConnection(first)
		fill(a, second)
		fill(a, a.holder(two, address(1)))
	}
	fill(a, first)
	x, y := one.held[descriptors].Load(), two.held[descriptors].Load()
	if x < y*8/10 || y < x*8/10 {
		t.Errorf("Services that both want all hold %d and %d", x, y)
	}
	if b, c := first.held[descriptors].Load(), second.held[descriptors].Load(); c < 1000 || b < 100 {
		t.Errorf("clients of one Service that both want all hold %d and %d", b, c)
	}
}

// What was taken is given back, by many at once, and nothing is remembered of those who left.
func TestAccountGivesBack(t *testing.T) {
	a := NewAccount(Budget{Descriptors: 100, Sessions: 50})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			s := a.tenant(service.Name{Namespace: "shop", Name: fmt.Sprint(g % 2)})
			defer a.leaveTenant(s)
			for i := range 2000 {
				h := a.holder(s, address(i%100))
				if a.takeConnection(h) {
					a.giveConnection(h)
				}
				if a.takeSession(h, 0) == nil {
					a.giveSession(h)
				}
				if pages, ok := a.TakePipe(); ok {
					a.GivePipe(pages)
				}
				a.leaveHolder(h)
			}
		})
	}
	wg.Wait()
	for r := range a.used {
		if n := a.used[r].Load(); n != 0 {
			t.Errorf("%d of resource %d are still taken", n, r)
		}
	}
	if len(a.tenants) != 0 || a.pages.Load() != 0 || a.pipes.Load() != 0 {
		t.Errorf("%d Services, %d pages, %d pipes are still known", len(a.tenants), a.pages.Load(), a.pipes.Load())
	}
	for i := range a.clients {
		if n := len(a.clients[i].held); n != 0 {
			t.Errorf("%d clients are still known", n)
		}
	}
}

// Pipes become smaller as they become more, end before the pages do, and leave descriptors that are short to
// connections.
func TestAccountPipes(t *testing.T) {
	a := NewAccount(Budget{})
	var pipes, last, sum int64
	for {
		pages, ok := a.TakePipe()
		if !ok {
			break
		}
		if last != 0 && pages > last {
			t.Fatalf("pipe %d has %d pages, the one before %d", pipes, pages, last)
		}
		pipes, last, sum = pipes+1, pages, sum+pages
	}
	if pipes < 32 || pipes > 64 || sum > DefaultPipePages {
		t.Errorf("%d pipes of %d pages", pipes, sum)
	}
	scarce := NewAccount(Budget{Descriptors: 100})
	fill(scarce, scarce.holder(scarce.tenant(service.Name{}), address(1)))
	if _, ok := scarce.TakePipe(); ok {
		t.Error("a pipe was granted while descriptors were short")
	}
}

// BenchmarkAccountSession is what a UDP session adds.
func BenchmarkAccountSession(b *testing.B) {
	for _, clients := range []int{1, 10000} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			a := NewAccount(Budget{Descriptors: 1 << 20, Sessions: 1 << 14})
			s := a.tenant(service.Name{Namespace: "shop", Name: "cart"})
			for i := range b.N {
				h := a.holder(s, address(i%clients))
				if a.takeSession(h, 0) == nil {
					a.giveSession(h)
				}
				a.leaveHolder(h)
			}
		})
	}
}

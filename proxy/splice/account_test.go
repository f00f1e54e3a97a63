package splice

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/portald/portald/portal/service"
)

func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// addressV6 is an address of a /64.
func addressV6(network, host int) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, 7: byte(network), 14: byte(host >> 8), 15: byte(host)})
}

// fill has a client take connections until it gets no more, and returns how many.
func fill(a *Account, h *holder) (n int) {
	for a.takeConnection(h) == nil {
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
	if greedy < 6500 || greedy > 7500 {
		t.Errorf("a lone client got %d of 10000", greedy)
	}
	if n := fill(a, second); n < 700 {
		t.Errorf("the next client of the Service got %d", n)
	}
	third := a.holder(two, address(3))
	if n := fill(a, third); n < 250 {
		t.Errorf("the next Service got %d", n)
	}
	for i := range 50 { // and whoever comes still gets in
		s := a.tenant(service.Name{Namespace: "late", Name: fmt.Sprint(i)})
		if err := a.takeConnection(a.holder(s, address(4))); err != nil {
			t.Fatalf("Service %d was refused: %v", i, err)
		}
	}
	for range greedy { // connections end, and those who want more come to hold the same
		a.giveConnection(first)
		fill(a, second)
		fill(a, third)
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

// Whatever wants everything, through many Services or from many addresses, leaves a fifth to others or a seventeenth to
// other namespaces, and the refusal names it.
func TestAccountBounds(t *testing.T) {
	const all, many = 7616, 60
	named := func(namespace string, i int) service.Name {
		return service.Name{Namespace: namespace, Name: fmt.Sprint("service-", i)}
	}
	for _, c := range []struct {
		name  string
		holds func(a *Account) (n int, last *holder)
		part  float64
		who   string
	}{
		{"a client of one Service", func(a *Account) (int, *holder) {
			h := a.holder(a.tenant(named("shop", 0)), address(1))
			return fill(a, h), h
		}, 0.75, "client 10.0.0.1 of Service shop/service-0"},
		{"a Service with many clients", func(a *Account) (n int, h *holder) {
			for i := range many {
				h = a.holder(a.tenant(named("shop", 0)), address(i))
				n += fill(a, h)
			}
			return n, h
		}, 0.85, "Service shop/service-0"},
		{"a client of many Services", func(a *Account) (n int, h *holder) {
			for i := range many {
				h = a.holder(a.tenant(named(fmt.Sprint("shop-", i), i)), address(1))
				n += fill(a, h)
			}
			return n, h
		}, 0.8, "client 10.0.0.1"},
		{"a network", func(a *Account) (n int, h *holder) {
			for i := range many {
				h = a.holder(a.tenant(named(fmt.Sprint("shop-", i), i)), addressV6(1, i))
				n += fill(a, h)
			}
			return n, h
		}, 0.8, "the clients of network fd00:0:0:1::/64"},
		{"a namespace", func(a *Account) (n int, h *holder) {
			for i := range many {
				for k := range many {
					h = a.holder(a.tenant(named("shop", k)), address(i))
					n += fill(a, h)
				}
			}
			return n, h
		}, 0.945, "namespace shop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := NewAccount(Budget{Descriptors: all})
			n, last := c.holds(a)
			if got := float64(2*n) / all; got > c.part || got < c.part-0.15 {
				t.Errorf("%.3f of all, expected up to %.3f", got, c.part)
			}
			var refused *ShareError
			if err := a.takeConnection(last); !errors.As(err, &refused) || refused.Who != c.who || refused.All != all {
				t.Errorf("refused by %v, expected %q", err, c.who)
			}
			for i := range 20 { // others get in, through Services and from addresses of their own
				other := a.holder(a.tenant(named("other", i)), address(1000+i))
				if err := a.takeConnection(other); err != nil {
					t.Fatalf("another client, %d: %v", i, err)
				}
			}
		})
	}
}

// An IPv6 host with all addresses of its /64 leaves room to the neighbours in it, and to other clients of the Service.
func TestAccountNeighbours(t *testing.T) {
	a := NewAccount(Budget{Descriptors: 20000})
	s := a.tenant(service.Name{Namespace: "shop", Name: "cart"})
	fill(a, a.holder(s, addressV6(1, 1)))
	for i := range 50 {
		if err := a.takeConnection(a.holder(s, addressV6(1, 100+i))); err != nil {
			t.Fatalf("neighbour %d: %v", i, err)
		}
	}
	for i := range 2000 {
		fill(a, a.holder(s, addressV6(1, 1000+i)))
	}
	for i := range 50 {
		if err := a.takeConnection(a.holder(s, address(i))); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
	}
}

// Connections leave descriptors to the listeners of new Services, and no namespace takes all of those.
func TestAccountListeners(t *testing.T) {
	a := NewAccount(Budget{Descriptors: 1600})
	for i := range 100 { // everybody wants everything
		s := a.tenant(service.Name{Namespace: fmt.Sprint(i), Name: "cart"})
		fill(a, a.holder(s, address(i)))
	}
	greedy := a.tenant(service.Name{Namespace: "greedy", Name: "cart"})
	n := 0
	for ; a.openListener(greedy) == nil; n++ {
	}
	if n < 1600/forListeners*8/10 {
		t.Errorf("%d listeners", n)
	}
	var refused *ShareError
	if err := a.openListener(greedy); !errors.As(err, &refused) || !strings.Contains(refused.Who, "namespace greedy") {
		t.Errorf("refused by %v", err)
	}
	other := a.tenant(service.Name{Namespace: "other", Name: "cart"})
	if err := a.openListener(other); err != nil {
		t.Errorf("another namespace: %v", err)
	}
	a.closeListener(other)
	for range n {
		a.closeListener(greedy)
	}
	if held := greedy.of.held[listeners].Load(); held != 0 {
		t.Errorf("%d are still held", held)
	}
}

// late is a UDP socket that evicts sessions of one client when it is asked to, and not as soon as it is told.
type late struct {
	a    *Account
	h    *holder
	told []func()
}

func (l *late) live() int64                       { return l.h.held[sessions].Load() }
func (l *late) yield(done func())                 { l.told = append(l.told, done) }
func (l *late) yieldOf(_ netip.Addr, done func()) { l.told = append(l.told, done) }

func (l *late) evict() {
	for _, done := range l.told {
		if l.live() > 0 {
			l.a.giveSession(l.h)
		}
		done()
	}
	l.told = nil
}

// What is taken of the reserve is given up by somebody who has it, also where many take of it before anybody could.
func TestReserveIsGivenUp(t *testing.T) {
	for name, client := range map[string]func(int) netip.Addr{
		"by one client of many Services":   func(int) netip.Addr { return address(0) },
		"by many clients of many Services": address,
	} {
		t.Run(name, func(t *testing.T) {
			a := NewAccount(Budget{Sessions: 300})
			var all []*late
			for i := range 30 {
				s := a.tenant(service.Name{Namespace: "shop", Name: fmt.Sprint(i)})
				all = append(all, &late{a: a, h: a.holder(s, client(i))})
				s.add(all[i])
			}
			for _, some := range [][]*late{all[:10], all[10:]} {
				for range 30 {
					for _, l := range some {
						_ = a.takeSession(l.h, int(l.live()))
					}
				}
			}
			most := a.used[sessions].Load()
			for _, l := range all {
				l.evict()
			}
			for _, l := range all {
				if l.h.told.Load() != 0 || l.h.tenant.told.Load() != 0 {
					t.Errorf("%d and %d are still to be given up", l.h.told.Load(), l.h.tenant.told.Load())
				}
			}
			if used := a.used[sessions].Load(); a.exceeds(sessions, all[0].h, used) {
				t.Errorf("%d were taken, and %d of 300 are", most, used)
			}
		})
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
				addr := address(i % 100)
				if i%2 == 0 {
					addr = addressV6(i%7, i%100)
				}
				h := a.holder(s, addr)
				if a.takeConnection(h) == nil {
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
	if len(a.tenants) != 0 || len(a.namespaces) != 0 || a.pages.Load() != 0 || a.pipes.Load() != 0 {
		t.Errorf("%d Services, %d pages, %d pipes are still known", len(a.tenants), a.pages.Load(), a.pipes.Load())
	}
	for i := range a.clients {
		if n, all := len(a.clients[i].held), len(a.clients[i].all); n != 0 || all != 0 {
			t.Errorf("%d clients of Services are still known, %d clients", n, all)
		}
	}
	if n := len(a.networks.held); n != 0 {
		t.Errorf("%d networks are still known", n)
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
	for i := range 10 {
		fill(scarce, scarce.holder(scarce.tenant(service.Name{}), address(i)))
	}
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

package quota

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/portald/portald/portal/service"
)

func addressV4(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// addressV6 is an address of a /64.
func addressV6(network, host int) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, 7: byte(network), 14: byte(host >> 8), 15: byte(host)})
}

// fill has a client take connections until it gets no more, and returns how many.
func fill(h *Client) (n int) {
	for h.TakeConnection() == nil {
		n++
	}
	return n
}

// Who wants all there is leaves enough for others, and Services, and clients of one, come to hold the same.
func TestAccountShares(t *testing.T) {
	a := NewAccount(Budget{Descriptors: 20000})
	one := a.Service(service.Name{Namespace: "shop", Name: "one"})
	two := a.Service(service.Name{Namespace: "shop", Name: "two"})
	first, second := one.Client(addressV4(1)), one.Client(addressV4(2))
	greedy := fill(first)
	if greedy < 6500 || greedy > 7500 {
		t.Errorf("a lone client got %d of 10000", greedy)
	}
	if n := fill(second); n < 700 {
		t.Errorf("the next client of the Service got %d", n)
	}
	third := two.Client(addressV4(3))
	if n := fill(third); n < 250 {
		t.Errorf("the next Service got %d", n)
	}
	for i := range 50 { // and whoever comes still gets in
		s := a.Service(service.Name{Namespace: "late", Name: fmt.Sprint(i)})
		if err := s.Client(addressV4(4)).TakeConnection(); err != nil {
			t.Fatalf("Service %d was refused: %v", i, err)
		}
	}
	for range greedy { // connections end, and those who want more come to hold the same
		first.GiveConnection()
		fill(second)
		fill(third)
	}
	fill(first)
	x, y := one.used[Descriptors].Load(), two.used[Descriptors].Load()
	if x < y*8/10 || y < x*8/10 {
		t.Errorf("Services that both want all hold %d and %d", x, y)
	}
	if b, c := first.used[Descriptors].Load(), second.used[Descriptors].Load(); c < 1000 || b < 100 {
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
		holds func(a *Account) (n int, last *Client)
		part  float64
		who   string
	}{
		{"a client of one Service", func(a *Account) (int, *Client) {
			h := a.Service(named("shop", 0)).Client(addressV4(1))
			return fill(h), h
		}, 0.75, "client 10.0.0.1 of Service shop/service-0"},
		{"a Service with many clients", func(a *Account) (n int, h *Client) {
			for i := range many {
				h = a.Service(named("shop", 0)).Client(addressV4(i))
				n += fill(h)
			}
			return n, h
		}, 0.85, "Service shop/service-0"},
		{"a client of many Services", func(a *Account) (n int, h *Client) {
			for i := range many {
				h = a.Service(named(fmt.Sprint("shop-", i), i)).Client(addressV4(1))
				n += fill(h)
			}
			return n, h
		}, 0.8, "client 10.0.0.1"},
		{"a network", func(a *Account) (n int, h *Client) {
			for i := range many {
				h = a.Service(named(fmt.Sprint("shop-", i), i)).Client(addressV6(1, i))
				n += fill(h)
			}
			return n, h
		}, 0.8, "the clients of network fd00:0:0:1::/64"},
		{"a namespace", func(a *Account) (n int, h *Client) {
			for i := range many {
				for k := range many {
					h = a.Service(named("shop", k)).Client(addressV4(i))
					n += fill(h)
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
			if err := last.TakeConnection(); !errors.As(err, &refused) || refused.Who != c.who || refused.All != all {
				t.Errorf("refused by %v, expected %q", err, c.who)
			}
			for i := range 20 { // others get in, through Services and from addresses of their own
				other := a.Service(named("other", i)).Client(addressV4(1000 + i))
				if err := other.TakeConnection(); err != nil {
					t.Fatalf("another client, %d: %v", i, err)
				}
			}
		})
	}
}

// An IPv6 host with all addresses of its /64 leaves room to the neighbours in it, and to other clients of the Service.
func TestAccountNeighbours(t *testing.T) {
	a := NewAccount(Budget{Descriptors: 20000})
	s := a.Service(service.Name{Namespace: "shop", Name: "cart"})
	fill(s.Client(addressV6(1, 1)))
	for i := range 50 {
		if err := s.Client(addressV6(1, 100+i)).TakeConnection(); err != nil {
			t.Fatalf("neighbour %d: %v", i, err)
		}
	}
	for i := range 2000 {
		fill(s.Client(addressV6(1, 1000+i)))
	}
	for i := range 50 {
		if err := s.Client(addressV4(i)).TakeConnection(); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
	}
}

// Connections leave descriptors to the listeners of new Services, and no namespace takes all of those.
func TestAccountListeners(t *testing.T) {
	a := NewAccount(Budget{Descriptors: 1600})
	for i := range 100 { // everybody wants everything
		s := a.Service(service.Name{Namespace: fmt.Sprint(i), Name: "cart"})
		fill(s.Client(addressV4(i)))
	}
	greedy := a.Service(service.Name{Namespace: "greedy", Name: "cart"})
	n := 0
	for ; greedy.OpenListener() == nil; n++ {
	}
	if n < 1600/forListeners*8/10 {
		t.Errorf("%d listeners", n)
	}
	var refused *ShareError
	if err := greedy.OpenListener(); !errors.As(err, &refused) || !strings.Contains(refused.Who, "namespace greedy") {
		t.Errorf("refused by %v", err)
	}
	other := a.Service(service.Name{Namespace: "other", Name: "cart"})
	if err := other.OpenListener(); err != nil {
		t.Errorf("another namespace: %v", err)
	}
	other.CloseListener()
	for range n {
		greedy.CloseListener()
	}
	if held := greedy.of.used[listeners].Load(); held != 0 {
		t.Errorf("%d are still held", held)
	}
}

// late is a UDP socket that evicts sessions of one client when it is asked to, and not as soon as it is told.
type late struct {
	h    *Client
	told []func()
}

func (l *late) Len() int64                        { return l.h.used[Sessions].Load() }
func (l *late) Evict(done func())                 { l.told = append(l.told, done) }
func (l *late) EvictOf(_ netip.Addr, done func()) { l.told = append(l.told, done) }

func (l *late) evict() {
	for _, done := range l.told {
		if l.Len() > 0 {
			l.h.GiveSession()
		}
		done()
	}
	l.told = nil
}

// Sessions taken from the reserve are given up by somebody who has some, also where many take from it before anybody
// could.
func TestReserveIsGivenUp(t *testing.T) {
	for name, client := range map[string]func(int) netip.Addr{
		"by one client of many Services":   func(int) netip.Addr { return addressV4(0) },
		"by many clients of many Services": addressV4,
	} {
		t.Run(name, func(t *testing.T) {
			a := NewAccount(Budget{Sessions: 300})
			var all []*late
			for i := range 30 {
				s := a.Service(service.Name{Namespace: "shop", Name: fmt.Sprint(i)})
				all = append(all, &late{h: s.Client(client(i))})
				s.AddSocket(all[i])
			}
			for _, some := range [][]*late{all[:10], all[10:]} {
				for range 30 {
					for _, l := range some {
						_ = l.h.TakeSession(int(l.Len()))
					}
				}
			}
			most := a.used[Sessions].Load()
			for _, l := range all {
				l.evict()
			}
			for _, l := range all {
				if l.h.told.Load() != 0 || l.h.service.told.Load() != 0 {
					t.Errorf("%d and %d are still to be given up", l.h.told.Load(), l.h.service.told.Load())
				}
			}
			if all[0].h.Exceeds(Sessions) {
				t.Errorf("%d were taken, and %d of 300 are", most, a.Used(Sessions))
			}
		})
	}
}

// Everything taken is given back, by many at once, and nothing is remembered of clients that left.
func TestAccountGivesBack(t *testing.T) {
	a := NewAccount(Budget{Descriptors: 100, Sessions: 50})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			s := a.Service(service.Name{Namespace: "shop", Name: fmt.Sprint(g % 2)})
			defer s.Leave()
			for i := range 2000 {
				addr := addressV4(i % 100)
				if i%2 == 0 {
					addr = addressV6(i%7, i%100)
				}
				h := s.Client(addr)
				if h.TakeConnection() == nil {
					h.GiveConnection()
				}
				if h.TakeSession(0) == nil {
					h.GiveSession()
				}
				if pages, ok := a.Pipes.Take(); ok {
					a.Pipes.Give(pages)
				}
				h.Leave()
			}
		})
	}
	wg.Wait()
	for r := range a.used {
		if n := a.used[r].Load(); n != 0 {
			t.Errorf("%d of resource %d are still taken", n, r)
		}
	}
	if len(a.services.all) != 0 || len(a.services.namespaces) != 0 || a.Pipes.Pages() != 0 || a.Pipes.Len() != 0 {
		t.Errorf("%d Services, %d pages, %d pipes are still known", len(a.services.all), a.Pipes.Pages(), a.Pipes.Len())
	}
	for i := range a.addresses {
		if n, all := len(a.addresses[i].clients), len(a.addresses[i].all); n != 0 || all != 0 {
			t.Errorf("%d clients of Services are still known, %d clients", n, all)
		}
	}
	if n := len(a.networks.all); n != 0 {
		t.Errorf("%d networks are still known", n)
	}
}

// Pipes become smaller as they become more, end before the pages do, and leave descriptors that are short to
// connections.
func TestAccountPipes(t *testing.T) {
	a := NewAccount(Budget{})
	var pipes, last, sum int64
	for {
		pages, ok := a.Pipes.Take()
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
		fill(scarce.Service(service.Name{}).Client(addressV4(i)))
	}
	if _, ok := scarce.Pipes.Take(); ok {
		t.Error("a pipe was granted while descriptors were short")
	}
}

// BenchmarkAccountSession measures the cost of a UDP session.
func BenchmarkAccountSession(b *testing.B) {
	for _, clients := range []int{1, 10000} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			a := NewAccount(Budget{Descriptors: 1 << 20, Sessions: 1 << 14})
			s := a.Service(service.Name{Namespace: "shop", Name: "cart"})
			for i := range b.N {
				h := s.Client(addressV4(i % clients))
				if h.TakeSession(0) == nil {
					h.GiveSession()
				}
				h.Leave()
			}
		})
	}
}

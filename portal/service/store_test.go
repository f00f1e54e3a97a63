package service

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
)

func port(name string, endpoints ...string) *Port {
	p := &Port{Name: PortName{"shop", name, "http", inet.TCP}, Created: time.Unix(1, 0)}
	for _, e := range endpoints {
		p.Endpoints = append(p.Endpoints, Endpoint{Addr: netip.MustParseAddrPort(e), Ready: true, Serving: true})
	}
	return p
}

func names(changes []Change) (out []string) {
	for _, c := range changes {
		state := "set"
		if c.Port == nil {
			state = "gone"
		}
		out = append(out, c.Name.Name+" "+state)
	}
	return out
}

func TestStoreCoalesces(t *testing.T) {
	s := NewStore()
	cart := Name{"shop", "cart"}
	s.Set(cart, []*Port{port("cart", "10.0.0.1:80")})
	s.Set(cart, []*Port{port("cart", "10.0.0.2:80")})
	s.Set(Name{"shop", "a"}, []*Port{port("a")})
	<-s.Changed()
	got, _ := s.Take()
	if fmt.Sprint(names(got)) != "[a set cart set]" || got[1].Port.Endpoints[0].Addr.String() != "10.0.0.2:80" {
		t.Fatalf("got %v", got)
	}
	if again, _ := s.Take(); len(again) != 0 {
		t.Errorf("taken twice: %v", again)
	}
	s.Set(cart, []*Port{port("cart", "10.0.0.2:80")})
	if s.Pending() != 0 {
		t.Error("an equal state is a change")
	}
	s.Set(cart, nil)
	if gone, _ := s.Take(); fmt.Sprint(names(gone)) != "[cart gone]" {
		t.Errorf("got %v", names(gone))
	}
}

// A port that came and went between two Takes is reported as gone, and its Service may lose one port of two.
func TestStorePorts(t *testing.T) {
	s := NewStore()
	cart := Name{"shop", "cart"}
	dns := port("cart")
	dns.Name.Port = "dns"
	s.Set(cart, []*Port{port("cart"), dns})
	s.Take()
	s.Set(cart, []*Port{port("cart")})
	if got, _ := s.Take(); len(got) != 1 || got[0].Name != dns.Name || got[0].Port != nil {
		t.Errorf("got %v", got)
	}
	if all, _ := s.All(); len(all) != 1 || all[0].Name.Port != "http" {
		t.Errorf("all: %v", all)
	}
}

// Times come out with the change they belong to: times of a state that changes nothing are dropped.
func TestStoreDates(t *testing.T) {
	s := NewStore()
	cart, at := Name{"shop", "cart"}, time.Unix(7, 0)
	s.Set(cart, []*Port{port("cart", "10.0.0.1:80")}, at)
	s.Set(cart, []*Port{port("cart", "10.0.0.2:80")}, at.Add(1))
	s.Set(cart, []*Port{port("cart", "10.0.0.2:80")}, at.Add(2))
	if _, triggered := s.Take(); fmt.Sprint(triggered) != fmt.Sprint([]time.Time{at, at.Add(1)}) {
		t.Errorf("got %v", triggered)
	}
	s.Set(cart, nil, at.Add(3))
	if _, triggered := s.All(); len(triggered) != 1 {
		t.Errorf("with all: %v", triggered)
	}
	if _, triggered := s.Take(); len(triggered) != 0 {
		t.Errorf("taken twice: %v", triggered)
	}
}

// One change among many Services costs what the Service costs, not what all of them do.
func BenchmarkStoreChange(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := NewStore()
			for i := range n {
				name := fmt.Sprint("s", i)
				s.Set(Name{"shop", name}, []*Port{port(name, "10.0.0.1:80")})
			}
			s.Take()
			states := [2]*Port{port("s7", "10.0.0.2:80"), port("s7", "10.0.0.3:80")}
			for i := 0; b.Loop(); i++ {
				s.Set(Name{"shop", "s7"}, []*Port{states[i%2]})
				s.Take()
			}
		})
	}
}

// Ports takes no change from the goroutine that applies them.
func TestPortsTakesNothing(t *testing.T) {
	s := NewStore()
	s.Set(Name{"shop", "cart"}, []*Port{port("cart", "10.0.0.1:80")})
	if all := s.Ports(); len(all) != 1 || all[0].Name.Name != "cart" {
		t.Errorf("stored: %v", all)
	}
	if changes, _ := s.Take(); len(changes) != 1 {
		t.Errorf("then taken: %v", changes)
	}
}

// A touched service port is taken again, as it is, unless it is gone.
func TestTouch(t *testing.T) {
	s := NewStore()
	s.Set(Name{"shop", "a"}, []*Port{port("a")})
	s.Set(Name{"shop", "b"}, []*Port{port("b")})
	s.Take()
	<-s.Changed()
	s.Touch()
	s.Touch(port("gone").Name)
	select {
	case <-s.Changed():
		t.Error("nothing was touched, and there is a change")
	default:
	}
	s.Touch(port("b").Name, port("gone").Name)
	<-s.Changed()
	if got, _ := s.Take(); fmt.Sprint(names(got)) != "[b set]" {
		t.Errorf("got %v", names(got))
	}
	s.Touch(port("b").Name)
	if got, _ := s.TakeIf(func(Change) bool { return true }); len(got) != 0 {
		t.Errorf("what was touched writes rules, and was taken as %v", names(got))
	}
}

// TakeIf asks once about each state, leaves the rest to Take, and each time comes out with its change.
func TestStoreTakeIf(t *testing.T) {
	s := NewStore()
	at, calls := time.Unix(7, 0), 0
	light := func(c Change) bool { calls++; return c.Port != nil && len(c.Port.Endpoints) > 0 }
	s.Set(Name{"shop", "a"}, []*Port{port("a")}, at)
	s.Set(Name{"shop", "b"}, []*Port{port("b", "10.0.0.1:80")}, at.Add(1))
	got, dates := s.TakeIf(light)
	if fmt.Sprint(names(got), dates) != fmt.Sprint("[b set] ", []time.Time{at.Add(1)}) || s.Pending() != 1 {
		t.Errorf("got %v at %v, %d pending", names(got), dates, s.Pending())
	}
	if again, _ := s.TakeIf(light); len(again) != 0 || calls != 2 {
		t.Errorf("got %v, asked %d times", names(again), calls)
	}
	s.Set(Name{"shop", "a"}, []*Port{port("a", "10.0.0.1:80")}, at.Add(2))
	if got, dates = s.TakeIf(light); len(got) != 1 || len(dates) != 2 {
		t.Errorf("the newer state: got %v at %v", names(got), dates)
	}
	if rest, _ := s.Take(); len(rest) != 0 {
		t.Errorf("taken twice: %v", names(rest))
	}
}

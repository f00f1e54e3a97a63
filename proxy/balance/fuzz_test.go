package balance

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// FuzzBalancer plays any sequence of picks, updates and waits and holds the balancer against a model of affinity.
func FuzzBalancer(f *testing.F) {
	f.Add([]byte{0, 0x0f, 1, 10, 2, 1, 2, 1, 3, 0x11, 0, 0x0e, 2, 1})
	f.Add([]byte{1, 5, 0, 0xff, 2, 1, 4, 6, 2, 1, 1, 0, 2, 1})
	f.Fuzz(func(t *testing.T, ops []byte) {
		synctest.Test(t, func(t *testing.T) {
			m := model{b: newBalancer(Options{MaxBindings: 5}), bound: map[netip.Addr]tie{}}
			for ; len(ops) >= 2; ops = ops[2:] {
				m.step(t, ops[0]%5, ops[1])
				check(t, m.b)
			}
		})
	})
}

type tie struct {
	to   netip.AddrPort
	used time.Time
}

// model is a simple implementation of a balancer, to compare with.
type model struct {
	b       *Balancer
	addrs   []netip.AddrPort
	timeout time.Duration
	bound   map[netip.Addr]tie
}

func (m *model) step(t *testing.T, op, arg byte) {
	switch op {
	case 0:
		m.addrs = subset(arg)
		m.b.SetEndpoints(m.addrs)
		for c, at := range m.bound {
			if !slices.Contains(m.addrs, at.to) {
				delete(m.bound, c)
			}
		}
	case 1:
		m.timeout = time.Duration(arg%20) * time.Second
		m.b.SetAffinity(m.timeout)
		if m.timeout == 0 {
			clear(m.bound)
		}
	case 2:
		m.pick(t, address(int(arg%8)), nil)
	case 3:
		m.pick(t, address(int(arg%8)), subset(arg>>3))
	case 5:
		m.pick(t, address(int(arg%8)), twice(subset(arg>>3)))
	case 4:
		time.Sleep(time.Duration(arg%16) * time.Second)
	}
	if got := bindingsOf(m.b); got > 5 || op != 4 && m.timeout == 0 && got != 0 {
		t.Fatalf("%d bindings", got)
	}
}

func (m *model) pick(t *testing.T, c netip.Addr, tried []netip.AddrPort) {
	e, affinity, ok := pickAddr(m.b, c, tried)
	at, known := m.bound[c]
	known = known && time.Since(at.used) < m.timeout
	second := known && count(tried, at.to) == 1 // its own gets a second chance
	left := second || slices.ContainsFunc(m.addrs, func(a netip.AddrPort) bool { return !slices.Contains(tried, a) })
	if ok != left {
		t.Fatalf("ok %v with %v, tried %v", ok, m.addrs, tried)
	}
	if !ok {
		return
	}
	if !slices.Contains(m.addrs, e) || slices.Contains(tried, e) && !(second && e == at.to) {
		t.Fatalf("picked %v of %v, tried %v", e, m.addrs, tried)
	}
	switch {
	case m.timeout == 0:
		if affinity != "" {
			t.Fatalf("affinity %q although it is off", affinity)
		}
		return
	case affinity == Hit:
		if !known || e != at.to {
			t.Fatalf("hit %v, bound to %v (%v)", e, at.to, known)
		}
	case affinity == Moved:
		if !known || !slices.Contains(tried, at.to) {
			t.Fatalf("moved from %v (%v), tried %v", at.to, known, tried)
		}
	case affinity != Fresh: // which one out of memory may be at any time, as room is limited
		t.Fatalf("affinity %q", affinity)
	}
	m.bound[c] = tie{e, time.Now()}
}

func subset(bits byte) []netip.AddrPort {
	var out []netip.AddrPort
	for i, e := range endpoints(8) {
		if bits>>i&1 == 1 {
			out = append(out, e)
		}
	}
	return out
}

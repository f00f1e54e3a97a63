package userspace

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

// A namespace that wants all ports leaves some to others, as many as it wants to some.
func TestProxyPortsOfNamespaces(t *testing.T) {
	p := newProxyPorts(inet.PortRange{First: 1000, Last: 1999})
	fill := func(namespace string) (ports []uint16, err error) {
		for {
			name := service.PortName{Namespace: namespace, Name: strconv.Itoa(len(ports)), Protocol: inet.TCP}
			port, err := p.take(frontKey{name, inet.IPv4}, 0, func(uint16) (bool, error) { return false, nil })
			if err != nil {
				return ports, err
			}
			ports = append(ports, port)
		}
	}
	greedy, err := fill("greedy")
	if n := len(greedy); n < 900 || n > 920 || !errors.Is(err, errNoPort) || !strings.Contains(err.Error(), "greedy has") {
		t.Errorf("one namespace has %d, then %v", n, err)
	}
	if others, err := fill("shop"); len(others) < 50 {
		t.Errorf("another has %d, then %v", len(others), err)
	}
	if others, err := fill("late"); len(others) == 0 {
		t.Errorf("a third has none: %v", err)
	}
	for i, port := range greedy {
		name := service.PortName{Namespace: "greedy", Name: strconv.Itoa(i), Protocol: inet.TCP}
		p.release(frontKey{name, inet.IPv4}, port)
	}
	if n := len(p.pools[inet.TCP].namespaces); n != 2 {
		t.Errorf("%d namespaces are known", n)
	}
}

func TestProxyPorts(t *testing.T) {
	now := time.Unix(0, 0)
	p := newProxyPorts(inet.PortRange{First: 100, Last: 104})
	p.now = func() time.Time { return now }
	tcp := frontKey{service.PortName{Name: "cart", Protocol: inet.TCP}, inet.IPv4}
	foreign := map[uint16]bool{101: true}
	other := tcp
	take := func(want uint16) {
		t.Helper()
		other.name.Name += "'" // a front that had no port before
		got, err := p.take(other, 0, func(port uint16) (bool, error) { return foreign[port], nil })
		if got != want || err != nil {
			t.Errorf("took %d, %v, want %d", got, err, want)
		}
	}
	take(100)
	take(102) // somebody else is at 101
	take(103)
	p.release(tcp, 100)
	p.release(tcp, 102)
	take(104) // those given back rest
	delete(foreign, 101)
	take(101) // its listener went
	now = now.Add(coolDown)
	take(100) // rested, the lowest first
	p.release(tcp, 103)
	take(102)
	take(103) // at rest, but there is no other
	p.release(tcp, 102)
	p.release(tcp, 103)
	if port, err := p.take(tcp, 0, func(uint16) (bool, error) { return false, nil }); port != 103 || err != nil {
		t.Errorf("a front that had 103 takes %d, %v", port, err)
	}
	take(102)
	if _, err := p.take(tcp, 0, func(uint16) (bool, error) { return false, nil }); !errors.Is(err, errNoPort) {
		t.Errorf("all are taken: %v", err)
	}
	if port, err := p.take(frontKey{service.PortName{Protocol: inet.UDP}, inet.IPv6}, 0,
		func(uint16) (bool, error) { return false, nil }); port != 100 || err != nil {
		t.Errorf("UDP has ports of its own: %d, %v", port, err)
	}
	p.release(tcp, 104)
	if n := p.pools[inet.TCP].listening.Load(); n != 4 {
		t.Errorf("%d ports have a listener, want 4", n)
	}
	got := p.changes()
	want := map[portal.ProxyPort]bool{tcp.proxyPort(100): true, tcp.proxyPort(101): true, tcp.proxyPort(102): true,
		tcp.proxyPort(103): true, tcp.proxyPort(104): false, {Family: inet.IPv6, Protocol: inet.UDP, Port: 100}: true}
	if len(got) != len(want) || len(p.changes()) != 0 {
		t.Errorf("changes %v, want %v once", got, want)
	}
	for port, open := range want {
		if got[port] != open {
			t.Errorf("%v is open: %t, want %t", port, got[port], open)
		}
	}
}

// Ten thousand ports are neighbours, and take no time worth speaking of.
func TestProxyPortsHaveNoGaps(t *testing.T) {
	p := newProxyPorts(DefaultPortRange())
	key := frontKey{service.PortName{Protocol: inet.TCP}, inet.IPv4}
	for n := range 10_000 {
		port, err := p.take(key, 0, func(uint16) (bool, error) { return false, nil })
		if want := p.within.First + uint16(n); port != want || err != nil {
			t.Fatalf("took %d, %v, want %d", port, err, want)
		}
	}
}

// A service port has the proxy port that it had with a predecessor, unless that is in use or out of the range.
func TestClaimedProxyPort(t *testing.T) {
	for name, c := range map[string]struct {
		claimed, want uint16
		inUse         bool
	}{
		"free":         {claimed: 105, want: 105},
		"in use":       {claimed: 105, want: 100, inUse: true},
		"out of range": {claimed: 99, want: 100},
		"none":         {want: 100},
	} {
		p := newProxyPorts(inet.PortRange{First: 100, Last: 109})
		key := frontKey{service.PortName{Protocol: inet.TCP}, inet.IPv4}
		got, err := p.take(key, c.claimed, func(port uint16) (bool, error) { return c.inUse && port == c.claimed, nil })
		if got != c.want || err != nil {
			t.Errorf("%s: took %d, %v, want %d", name, got, err, c.want)
		}
		other, err := p.take(key, c.claimed, func(uint16) (bool, error) { return false, nil })
		if other == got || err != nil {
			t.Errorf("%s: took %d twice, %v", name, other, err)
		}
	}
}

// A successor's first service ports find thousands of ports that its predecessor left to later ones: they do not try
// them all, one after the other.
func TestPortsOfOthersAreNotTriedForEachServicePort(t *testing.T) {
	now := time.Unix(0, 0)
	p := newProxyPorts(DefaultPortRange())
	p.now = func() time.Time { return now }
	tries := 0
	take := func(n int, claimed uint16) error {
		name := service.PortName{Namespace: "shop", Name: strconv.Itoa(n), Protocol: inet.TCP}
		_, err := p.take(frontKey{name, inet.IPv4}, claimed, func(port uint16) (bool, error) {
			tries++
			return port != claimed, nil
		})
		return err
	}
	for n := range 1000 {
		if err := take(n, 0); !errors.Is(err, errNoPort) {
			t.Fatalf("took a port of others: %v", err)
		}
	}
	if tries != mostForeign {
		t.Errorf("%d tries", tries)
	}
	if err := take(1000, 20000); err != nil {
		t.Errorf("one that claims its port: %v", err)
	}
	now = now.Add(scarceFor)
	if take(1001, 0); tries != 2*mostForeign+1 {
		t.Errorf("%d tries, later", tries)
	}
}

package kernel

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

func port(change func(*service.Port)) *service.Port {
	p := &service.Port{Name: service.PortName{Namespace: "shop", Name: "cart", Protocol: inet.TCP}}
	for i, at := range []string{"10.96.0.1:80", "0.0.0.0:30080", "192.0.2.7:80", "198.51.100.1:80", "[fd00::96]:80"} {
		x := service.Exposure{Frontend: service.Frontend{Addr: netip.MustParseAddrPort(at), Protocol: inet.TCP},
			Kind: service.Kind(i % service.Kinds)}
		p.Exposures = append(p.Exposures, x)
	}
	p.Endpoints = []service.Endpoint{
		{Addr: netip.MustParseAddrPort("10.1.0.1:80"), Local: true, Ready: true, Serving: true, Node: "here"},
		{Addr: netip.MustParseAddrPort("10.1.0.2:80"), Ready: true, Serving: true, Node: "there"},
		{Addr: netip.MustParseAddrPort("10.1.0.3:80"), Ready: true, Serving: true},
	}
	change(p)
	return p
}

// word says where a portal leads.
func word(t portal.Target) string {
	switch t := t.(type) {
	case portal.Reject:
		return "reject"
	case portal.Drop:
		return "drop"
	case portal.Spread:
		return map[service.Scope]string{service.ClusterScope: "cluster", service.NodeScope: "node"}[t.Scope]
	}
	return "?"
}

// Where the portals of each kind lead: ClusterIP, NodePort, ExternalIP, LoadBalancerIP, and the ClusterIP of IPv6.
func TestTargets(t *testing.T) {
	local := func(p *service.Port) { p.InternalLocal, p.ExternalLocal = true, true }
	for _, c := range []struct {
		name   string
		change func(*service.Port)
		want   [5]string
	}{
		{"policies of the cluster", func(*service.Port) {}, [5]string{"cluster", "cluster", "cluster", "cluster", "reject"}},
		{"Local policies", local, [5]string{"node", "node", "node", "node", "reject"}},
		{"Local policies, nobody here", func(p *service.Port) { local(p); p.Endpoints = p.Endpoints[1:] },
			[5]string{"drop", "node", "node", "node", "reject"}},
		{"nobody", func(p *service.Port) { p.Endpoints = nil }, [5]string{"reject", "reject", "reject", "reject", "reject"}},
	} {
		portals, err := New(Options{}).Serve(port(c.change))
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range portals {
			if got := word(p.Target); got != c.want[i] {
				t.Errorf("%s: the %s leads %s, want %s", c.name, p.Kind, got, c.want[i])
			}
		}
	}
}

func poolOfFirst(t *testing.T, c *Carrier, p *service.Port) *portal.Pool {
	t.Helper()
	portals, err := c.Serve(p)
	if err != nil {
		t.Fatal(err)
	}
	return portals[0].Target.(portal.Spread).Pool
}

// A pool is the same as long as it says the same.
func TestPools(t *testing.T) {
	c := New(Options{})
	all := func(*service.Port) {}
	first := poolOfFirst(t, c, port(all))
	for i, e := range first.Cluster {
		if want := i != 1; e.MayHairpin != want {
			t.Errorf("%s may dial itself through this node: %t", e.Addr, e.MayHairpin)
		}
	}
	if poolOfFirst(t, c, port(all)) != first {
		t.Error("another pool for the same state")
	}
	for name, change := range map[string]func(*service.Port){
		"endpoints":    func(p *service.Port) { p.Endpoints = p.Endpoints[:2] },
		"affinity":     func(p *service.Port) { p.Affinity = time.Hour },
		"ranges":       func(p *service.Port) { p.SourceRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} },
		"where one is": func(p *service.Port) { p.Endpoints[0].Local = false },
		"policy":       func(p *service.Port) { p.ExternalLocal = true },
	} {
		before := poolOfFirst(t, c, port(all))
		if after := poolOfFirst(t, c, port(change)); after == before {
			t.Errorf("%s: the same pool", name)
		}
	}
	open := poolOfFirst(t, c,
		port(func(p *service.Port) { p.SourceRanges = []netip.Prefix{netip.MustParsePrefix("fd00::/8")} }))
	if open.Restricted || len(open.SourceRanges) != 0 {
		t.Errorf("ranges of the other family alone: restricted %t to %v", open.Restricted, open.SourceRanges)
	}
	if err := c.Retire(nil, []service.Change{{Name: port(all).Name}}); err != nil || len(c.pools) != 0 {
		t.Errorf("gone: %v, %d left", err, len(c.pools))
	}
}

// With affinity a bounded number of endpoints serves from a node, each node has its own, and few change when one goes.
func TestAffinityIsBounded(t *testing.T) {
	const all = 3 * MaxBound
	told := map[service.PortName]int{}
	serve := func(node string, change func(*service.Port)) *portal.Pool {
		t.Helper()
		c := New(Options{Node: node, Bounded: func(name service.PortName, n int) { told[name] = n }})
		p := port(func(p *service.Port) {
			p.Affinity, p.Endpoints = time.Hour, nil
			for i := range all {
				at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 80)
				p.Endpoints = append(p.Endpoints, service.Endpoint{Addr: at, Ready: true, Serving: true, Node: "there"})
			}
			change(p)
		})
		portals, err := c.Serve(p)
		if err != nil {
			t.Fatal(err)
		}
		return portals[0].Target.(portal.Spread).Pool
	}
	addrs := func(p *portal.Pool) map[netip.AddrPort]bool {
		out := map[netip.AddrPort]bool{}
		for _, e := range p.Cluster {
			out[e.Addr] = true
		}
		return out
	}
	shared := func(a, b map[netip.AddrPort]bool) (n int) {
		for at := range a {
			if b[at] {
				n++
			}
		}
		return n
	}
	same := func(*service.Port) {}
	a := serve("a", same)
	if len(a.Cluster) != MaxBound ||
		!slices.IsSortedFunc(a.Cluster, func(x, y portal.Endpoint) int { return x.Addr.Compare(y.Addr) }) {
		t.Errorf("%d endpoints, in order: want %d", len(a.Cluster), MaxBound)
	}
	if len(told) != 1 || told[port(same).Name] != all {
		t.Errorf("told of %v", told)
	}
	if !a.Equal(serve("a", same)) {
		t.Error("another choice of the same endpoints")
	}
	less := serve("a", func(p *service.Port) { p.Endpoints = p.Endpoints[1:] })
	if n := shared(addrs(a), addrs(less)); n < MaxBound-1 {
		t.Errorf("one endpoint less changed %d", MaxBound-n)
	}
	if n := shared(addrs(a), addrs(serve("b", same))); n < MaxBound/4 || n > MaxBound/2 {
		t.Errorf("two nodes share %d of %d endpoints drawn from three times as many: want a third or so", n, MaxBound)
	}
	if free := serve("a", func(p *service.Port) { p.Affinity = 0 }); len(free.Cluster) != all {
		t.Errorf("without affinity %d endpoints serve, want %d", len(free.Cluster), all)
	}
}

// A service port has its own algorithm if the Writer does, else the daemon's if that is more than the default of all
// modes. Another algorithm is another pool.
func TestAlgorithms(t *testing.T) {
	daemons := service.RoundRobin
	c := New(Options{
		Algorithm: func() service.Algorithm { return daemons },
		Offers:    func(a service.Algorithm) bool { return a != service.LeastConnections },
	})
	pool := poolOfFirst(t, c, port(func(*service.Port) {}))
	for _, test := range []struct{ own, daemons, want service.Algorithm }{
		{service.AlgorithmDefault, service.RoundRobin, service.AlgorithmDefault},
		{service.RoundRobin, service.RoundRobin, service.RoundRobin},
		{service.LeastConnections, service.RoundRobin, service.AlgorithmDefault},
		{service.AlgorithmDefault, service.SourceHash, service.SourceHash},
		{service.LeastConnections, service.SourceHash, service.SourceHash},
		{service.Random, service.SourceHash, service.Random},
		{service.AlgorithmDefault, service.LeastConnections, service.AlgorithmDefault},
	} {
		daemons = test.daemons
		now := poolOfFirst(t, c, port(func(p *service.Port) { p.Policy.Algorithm = test.own }))
		if now.Algorithm != test.want || (now == pool) != (pool.Algorithm == test.want) {
			t.Errorf("%+v: got %q, the same pool: %t", test, now.Algorithm, now == pool)
		}
		pool = now
	}
}

// Only service ports are served again whose source ranges hold this node now and did not, or the other way round.
func TestReadmit(t *testing.T) {
	var node []netip.Addr
	c := New(Options{NodeAddresses: func() []netip.Addr { return node }})
	all := map[string]*service.Port{}
	for name, ranges := range map[string][]string{
		"open": nil, "here": {"192.0.2.0/24"}, "there": {"198.51.100.0/24"}, "both": {"192.0.2.0/24", "198.51.100.0/24"},
		"six": {"fd00:2::/64"}, "gone": {"192.0.2.0/24"},
	} {
		all[name] = port(func(p *service.Port) {
			p.Name.Name = name
			for _, text := range ranges {
				p.SourceRanges = append(p.SourceRanges, netip.MustParsePrefix(text))
			}
		})
		if pool := poolOfFirst(t, c, all[name]); pool.AdmitsNode {
			t.Errorf("%s: admits a node without addresses", name)
		}
	}
	if err := c.Retire(nil, []service.Change{{Name: all["gone"].Name}}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		addrs, want string
	}{
		{"192.0.2.1", "both here"},
		{"192.0.2.1", ""},
		{"192.0.2.2 192.0.2.3", ""},
		{"fd00:2::1 198.51.100.1", "here six there"},
		{"", "both six there"},
	} {
		node = nil
		for text := range strings.FieldsSeq(step.addrs) {
			node = append(node, netip.MustParseAddr(text))
		}
		var got []string
		for _, name := range c.Readmit() {
			got = append(got, name.Name)
			if _, err := c.Serve(all[name.Name]); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != step.want {
			t.Errorf("with addresses %q: %v, want %s", step.addrs, got, step.want)
		}
	}
	node = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	if !poolOfFirst(t, c, all["both"]).AdmitsNode || poolOfFirst(t, c, all["there"]).AdmitsNode ||
		poolOfFirst(t, c, all["open"]).AdmitsNode {
		t.Error("pools do not say whether source ranges hold this node")
	}
}

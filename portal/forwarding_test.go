package portal

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/portald/portald/portal/service"
)

func testPool() *Pool {
	here := Endpoint{Addr: netip.MustParseAddrPort("10.244.0.2:80")}
	there := Endpoint{Addr: netip.MustParseAddrPort("10.244.1.2:80")}
	return &Pool{Cluster: []Endpoint{here, there}, Node: []Endpoint{here}}
}

// word says "cluster" or "node" for the endpoints, "drop" for none, with a + behind when flows are masqueraded.
func (t Translation) word() string {
	word := map[service.Scope]string{service.ClusterScope: "cluster", service.NodeScope: "node"}[t.Scope]
	if len(t.Endpoints) == 0 {
		word = "drop"
	}
	if t.Masquerade {
		word += "+"
	}
	return word
}

func TestForwardingOfEachClass(t *testing.T) {
	all := Masquerade{All: true}
	noneHere := testPool()
	noneHere.Node = nil
	for _, c := range []struct {
		name                string
		kind                service.Kind
		spread              Spread
		masquerade          Masquerade
		podsKnown           bool
		pods, node, outside string
	}{
		{"ClusterIP", service.ClusterIP, Spread{Pool: testPool()}, Masquerade{}, true, "cluster", "cluster+", "cluster+"},
		{"ClusterIP, pods unknown", service.ClusterIP, Spread{Pool: testPool()}, Masquerade{}, false,
			"cluster", "cluster", "cluster"},
		{"ClusterIP, masquerade all", service.ClusterIP, Spread{Pool: testPool()}, all, false,
			"cluster+", "cluster+", "cluster+"},
		{"ClusterIP of the node", service.ClusterIP, Spread{testPool(), service.NodeScope}, Masquerade{}, true,
			"node", "node+", "node+"},
		{"ClusterIP of the node, none here", service.ClusterIP, Spread{noneHere, service.NodeScope}, Masquerade{}, true,
			"drop", "drop+", "drop+"},
		{"NodePort", service.NodePort, Spread{Pool: testPool()}, Masquerade{}, true, "cluster+", "cluster+", "cluster+"},
		{"ExternalIP, pods unknown", service.ExternalIP, Spread{Pool: testPool()}, Masquerade{}, false,
			"cluster+", "cluster+", "cluster+"},
		{"NodePort of the node", service.NodePort, Spread{testPool(), service.NodeScope}, all, true,
			"cluster", "cluster+", "node"},
		{"LoadBalancerIP of the node, none here", service.LoadBalancerIP, Spread{noneHere, service.NodeScope}, Masquerade{},
			true, "cluster", "cluster+", "drop"},
	} {
		f := c.spread.Forwarding(c.kind, c.masquerade, c.podsKnown)
		if p, n, o := f.Pods.word(), f.Node.word(), f.Outside.word(); p != c.pods || n != c.node || o != c.outside {
			t.Errorf("%s: pods %s, node %s, outside %s; want %s, %s, %s", c.name, p, n, o, c.pods, c.node, c.outside)
		}
		if uniform := c.pods == c.node && c.node == c.outside; f.Uniform() != uniform {
			t.Errorf("%s: uniform is %t", c.name, f.Uniform())
		}
		if drops := strings.HasPrefix(c.outside, "drop"); f.Drops() != drops {
			t.Errorf("%s: drops is %t", c.name, f.Drops())
		}
		if forwards := c.pods != "drop"; f.Forwards() != forwards {
			t.Errorf("%s: forwards is %t", c.name, f.Forwards())
		}
	}
}

func TestForwardingAdmits(t *testing.T) {
	inside, outside := netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("203.0.113.9")
	for _, c := range []struct {
		name            string
		kind            service.Kind
		restricted      bool
		ranges          []string
		inside, outside bool
		all             bool
	}{
		{"unrestricted", service.LoadBalancerIP, false, nil, true, true, true},
		{"ranges", service.LoadBalancerIP, true, []string{"192.0.2.128/25", "192.0.2.0/25"}, true, false, false},
		{"ranges of the other family alone", service.LoadBalancerIP, true, nil, false, false, false},
		{"a range of all addresses", service.LoadBalancerIP, true, []string{"192.0.2.0/24", "0.0.0.0/0"}, true, true, true},
		{"another kind", service.NodePort, true, []string{"192.0.2.0/24"}, true, true, true},
	} {
		pool := testPool()
		pool.Restricted = c.restricted
		for _, text := range c.ranges {
			pool.SourceRanges = append(pool.SourceRanges, netip.MustParsePrefix(text))
		}
		f := Spread{Pool: pool}.Forwarding(c.kind, Masquerade{}, true)
		admits := func(a netip.Addr) bool { return !f.Restricted || service.Within(f.SourceRanges, a) }
		if admits(inside) != c.inside || admits(outside) != c.outside || f.AdmitsAll() != c.all {
			t.Errorf("%s: admits %t, %t, all %t", c.name, admits(inside), admits(outside), f.AdmitsAll())
		}
		if restricted := c.restricted && c.kind == service.LoadBalancerIP; f.Restricted != restricted ||
			f.Drops() != restricted {
			t.Errorf("%s: restricted %t, drops %t", c.name, f.Restricted, f.Drops())
		}
	}
}

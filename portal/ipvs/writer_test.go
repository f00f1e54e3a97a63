package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
)

const clusterIP, first, second = "10.96.0.1:80", "10.244.0.2:8080", "10.244.0.3:8080"

func front(addr string, p inet.Protocol) service.Frontend {
	return service.Frontend{Addr: netip.MustParseAddrPort(addr), Protocol: p}
}

func replace(t *testing.T, w *Writer, portals ...portal.Portal) {
	t.Helper()
	if err := w.Replace(t.Context(), portals); err != nil {
		t.Fatal(err)
	}
	audited(t, w)
}

// turn updates a portal, or withdraws it with a nil target.
func turn(t *testing.T, w *Writer, p portal.Portal, target portal.Target) {
	t.Helper()
	c := portal.Change{Frontend: p.Frontend}
	if p.Target = target; target != nil {
		c.Portal = &p
	}
	if err := w.Update(t.Context(), []portal.Change{c}); err != nil {
		t.Fatal(err)
	}
	audited(t, w)
}

func audited(t *testing.T, w *Writer) {
	t.Helper()
	if err := w.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// swept has idle servers removed.
func swept(t *testing.T, w *Writer) {
	t.Helper()
	w.swept = time.Time{}
	if _, err := w.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
}

// weights are the weights of endpoints; -1 is none.
func (k *fake) weights(f service.Frontend, addrs ...string) (out []int) {
	for _, a := range addrs {
		weight := -1
		if d := k.ends[f][netip.MustParseAddrPort(a)]; d != nil {
			weight = d.weight
		}
		out = append(out, weight)
	}
	return out
}

func TestEndpointsDrain(t *testing.T) {
	for _, protocol := range []inet.Protocol{inet.TCP, inet.UDP} {
		k := newFake()
		w, _ := k.writer(t, Options{})
		both, one := spread(service.ClusterIP, clusterIP, protocol, first, second), spread(service.ClusterIP, clusterIP,
			protocol, second)
		f := both.Frontend
		replace(t, w, both)
		k.ends[f][netip.MustParseAddrPort(first)].conns = 1
		turn(t, w, both, one.Target)
		want := []int{0, 1}
		if protocol == inet.UDP {
			want = []int{-1, 1}
		}
		if got := k.weights(f, first, second); !slices.Equal(got, want) {
			t.Errorf("%s, with a connection: weights %v, want %v", protocol, got, want)
		}
		if protocol == inet.TCP {
			k.ends[f][netip.MustParseAddrPort(first)].conns = 0
		}
		swept(t, w)
		if got := k.weights(f, first, second); !slices.Equal(got, []int{-1, 1}) {
			t.Errorf("%s, idle: weights %v", protocol, got)
		}
		turn(t, w, both, both.Target)
		if got := k.weights(f, first, second); !slices.Equal(got, []int{1, 1}) {
			t.Errorf("%s, back: weights %v", protocol, got)
		}
	}
}

// A server whose portal is gone stays while somebody is connected, with its address, across a start too.
func TestServersDrain(t *testing.T) {
	k := newFake()
	w, _ := k.writer(t, Options{})
	p := spread(service.ClusterIP, clusterIP, inet.TCP, first)
	other := spread(service.ClusterIP, "10.96.0.2:80", inet.TCP, second)
	replace(t, w, p, other)
	k.ends[p.Frontend][netip.MustParseAddrPort(first)].conns = 1
	turn(t, w, p, nil)
	w, _ = k.writer(t, Options{})
	replace(t, w, other)
	if got := k.weights(p.Frontend, first); !slices.Equal(got, []int{0}) || !k.device[p.Frontend.Addr.Addr()] {
		t.Fatalf("with a connection: weights %v, addresses %v", got, k.device)
	}
	k.ends[p.Frontend][netip.MustParseAddrPort(first)].conns = 0
	swept(t, w)
	if _, there := k.servers[p.Frontend]; there || k.device[p.Frontend.Addr.Addr()] {
		t.Errorf("idle: servers %v, addresses %v", k.servers, k.device)
	}
}

func TestAddressesAreShared(t *testing.T) {
	k := newFake("192.0.2.1")
	w, _ := k.writer(t, Options{})
	a, b := spread(service.ClusterIP, clusterIP, inet.TCP, first), spread(service.ClusterIP, "10.96.0.1:443",
		inet.TCP, first)
	host := spread(service.ExternalIP, "192.0.2.1:80", inet.TCP, first)
	replace(t, w, a, b, host)
	addr := a.Frontend.Addr.Addr()
	if len(k.device) != 1 || !k.device[addr] {
		t.Errorf("addresses %v, want %s and never the host's own", k.device, addr)
	}
	turn(t, w, a, nil)
	if !k.device[addr] {
		t.Error("the address goes while it is in use")
	}
	turn(t, w, b, portal.Redirect{Port: 20000})
	if _, there := k.servers[b.Frontend]; there || !k.device[addr] {
		t.Error("a redirected portal has a server, or has lost the address that this node's clients dial from")
	}
	turn(t, w, b, nil)
	if k.device[addr] {
		t.Error("the address stays without use")
	}
}

func TestRulesGetTheOthers(t *testing.T) {
	k := newFake()
	w, r := k.writer(t, Options{})
	p := spread(service.ClusterIP, clusterIP, inet.TCP, first)
	replace(t, w, p)
	for _, step := range []struct {
		to    portal.Target // nil: as it is
		rules string
	}{
		{nil, ""},
		{portal.Redirect{Port: 20000}, "ClusterIP 10.96.0.1:80/tcp -> port 20000 (shop/web/tcp)"},
		{p.Target, ""},
	} {
		if step.to != nil {
			turn(t, w, p, step.to)
		}
		if got := r.Dump(); got != step.rules {
			t.Errorf("to %v: rules have %q, want %q", step.to, got, step.rules)
		}
	}
}

// A server serves on while the rules do not take its frontend over.
func TestServersOutlastRulesThatFail(t *testing.T) {
	k := newFake()
	w, r := k.writer(t, Options{})
	p := spread(service.ClusterIP, clusterIP, inet.TCP, first)
	redirect := p
	redirect.Target = portal.Redirect{Port: 20000}
	replace(t, w, p)
	r.Err = context.Canceled
	for verb, err := range map[string]error{
		"update":  w.Update(t.Context(), []portal.Change{{Frontend: p.Frontend, Portal: &redirect}}),
		"replace": w.Replace(t.Context(), []portal.Portal{redirect}),
	} {
		if !errors.Is(err, r.Err) {
			t.Errorf("%s: %v, want the error of the rules", verb, err)
		}
	}
	if got := k.weights(p.Frontend, first); !slices.Equal(got, []int{1}) || !k.device[p.Frontend.Addr.Addr()] {
		t.Errorf("weights %v, addresses %v, want the server as it was", got, k.device)
	}
	r.Err = nil
	replace(t, w, redirect)
	if _, there := k.servers[p.Frontend]; there {
		t.Error("the server stays when the rules have its frontend")
	}
}

// The node has a new address only once rules lead packets to it somewhere: until then it would refuse them.
func TestAddressesComeLast(t *testing.T) {
	k := newFake()
	w, r := k.writer(t, Options{})
	addr := front(clusterIP, inet.TCP).Addr.Addr()
	wrote := 0
	r.Before = func() {
		wrote++
		if k.device[addr] || len(k.sets[w.names.set(addresses, inet.IPv4)]) > 0 {
			t.Error("the node has the address before there are rules")
		}
	}
	p := spread(service.ClusterIP, clusterIP, inet.TCP, first)
	p.Target = portal.Redirect{Port: 20000}
	replace(t, w)
	if err := w.Update(t.Context(), []portal.Change{{Frontend: p.Frontend, Portal: &p}}); err != nil {
		t.Fatal(err)
	}
	if wrote != 2 || !k.device[addr] || len(k.sets[w.names.set(addresses, inet.IPv4)]) != 1 {
		t.Errorf("rules were written %d times; in the end the node has %v", wrote, k.device)
	}
}

func TestNodePorts(t *testing.T) {
	k := newFake("127.0.0.1", "192.0.2.1", "198.18.0.1", "fe80::1")
	w, _ := k.writer(t, Options{NodePortAddresses: prefixes("192.0.2.0/24", "127.0.0.0/8")})
	replace(t, w, spread(service.NodePort, "0.0.0.0:30080", inet.TCP, first))
	if _, there := k.servers[front("192.0.2.1:30080", inet.TCP)]; !there || len(k.servers) != 1 {
		t.Errorf("virtual servers %v, want one at 192.0.2.1", k.servers)
	}
	k.host = addrs("192.0.2.1", "192.0.2.9")
	if err := w.Audit(t.Context()); err == nil {
		t.Error("the audit misses an address that the host was given")
	}
	replace(t, w, spread(service.NodePort, "0.0.0.0:30080", inet.TCP, first))
	if len(k.servers) != 2 {
		t.Errorf("virtual servers %v, want one at each address", k.servers)
	}
}

func TestServersOfOthersStay(t *testing.T) {
	k := newFake("192.0.2.1")
	foreign, excluded := front("192.0.2.1:8000", inet.TCP), front("10.96.0.9:80", inet.TCP)
	for _, f := range []service.Frontend{foreign, excluded} {
		k.servers[f], k.ends[f] = settings{scheduler: "sed"}, nil
	}
	k.device[excluded.Addr.Addr()] = true
	w, _ := k.writer(t, Options{ExcludeCIDRs: prefixes("10.96.0.8/30")})
	replace(t, w, spread(service.ClusterIP, "10.96.0.9:80", inet.TCP, first), spread(service.ClusterIP, clusterIP,
		inet.TCP, first))
	replace(t, w, spread(service.ClusterIP, clusterIP, inet.TCP, first))
	if err := w.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, f := range []service.Frontend{foreign, excluded} {
		if k.servers[f].scheduler != "sed" || len(k.ends[f]) > 0 {
			t.Errorf("virtual server %s of others: %v, %v", f, k.servers[f], k.ends[f])
		}
	}
	if len(k.servers) != 2 || len(k.sets) != 0 {
		t.Errorf("left behind: %v, %v", k.servers, k.sets)
	}
}

// The number of messages for a change does not grow with the number of portals.
func TestChangeIsCheap(t *testing.T) {
	told := map[int]int{}
	for _, n := range []int{10, 1000} {
		k := newFake("192.0.2.1")
		w, _ := k.writer(t, Options{})
		var all []portal.Portal
		for i := range n {
			all = append(all, spread(service.ClusterIP, fmt.Sprintf("10.96.%d.%d:80", i/250, 1+i%250), inet.TCP, first,
				second))
		}
		replace(t, w, all...)
		before := k.told
		turn(t, w, all[0], spread(service.ClusterIP, "10.96.0.1:80", inet.TCP, first).Target)
		told[n] = k.told - before
	}
	if told[10] != told[1000] || told[10] > 4 {
		t.Errorf("the kernel is told %v times, by portals", told)
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"scheduler": {Scheduler: "best"}, "prefix": {Prefix: "kube"}, "mark": {Masquerade: portal.Masquerade{Mark: 3}},
		"timeout": {TCPTimeout: 1},
	} {
		if err := o.complete(); err == nil {
			t.Errorf("a bad %s is taken", name)
		} else {
			t.Log(err)
		}
	}
}

// A virtual server that others left at an address of ours is removed, with all that was made for it meanwhile.
func TestStrangeServersGo(t *testing.T) {
	k := newFake()
	w, _ := k.writer(t, Options{})
	p := spread(service.ClusterIP, clusterIP, inet.TCP, first)
	replace(t, w, p)
	strange := front("10.96.0.1:81", inet.TCP)
	k.servers[strange], k.ends[strange] = settings{scheduler: "rr"}, nil
	replace(t, w, p)
	if _, there := k.servers[strange]; there {
		t.Error("it stays")
	}
}

// A Service may have a scheduler of its own. A change of it is one call for each of its virtual servers, which keep
// their endpoints and what these carry.
func TestAlgorithmOfAService(t *testing.T) {
	for _, daemons := range []string{"rr", "mh", "wlc"} {
		own := func(s string, flags uint32) settings { return settings{scheduler: s, flags: flags} }
		standard := map[string]settings{"rr": own("rr", 0), "mh": own("mh", fallback|mhPort), "wlc": own("wlc", 0)}[daemons]
		k := newFake()
		w, _ := k.writer(t, Options{Scheduler: daemons})
		p := spread(service.ClusterIP, clusterIP, inet.TCP, first, second)
		other := spread(service.ClusterIP, "10.96.0.2:80", inet.TCP, first, second)
		replace(t, w, p, other)
		k.ends[p.Frontend][netip.MustParseAddrPort(first)].conns = 7
		for _, c := range []struct {
			by   service.Algorithm
			want settings
		}{
			{service.LeastConnections, own("lc", 0)}, {service.SourceHash, own("mh", fallback)},
			{service.RoundRobin, own("rr", 0)}, {service.SourceHash, own("mh", fallback)}, {service.Random, standard},
			{service.LeastConnections, own("lc", 0)}, {service.AlgorithmDefault, standard},
		} {
			told, was := k.told, k.servers[p.Frontend]
			pool := *p.Target.(portal.Spread).Pool
			pool.Algorithm = c.by
			turn(t, w, p, portal.Spread{Pool: &pool})
			if got := k.servers[p.Frontend]; got != c.want {
				t.Errorf("%s: %s has %+v, want %+v", daemons, c.by, got, c.want)
			}
			if calls := k.told - told; calls > 1 || (calls == 1) != (was != c.want) {
				t.Errorf("%s: the kernel was told %d things of a change to %s", daemons, calls, c.by)
			}
			if k.servers[other.Frontend] != standard || k.ends[p.Frontend][netip.MustParseAddrPort(first)].conns != 7 {
				t.Errorf("%s: %s changed another Service, or lost connections", daemons, c.by)
			}
		}
	}
}

// A scheduler that the kernel lacks is not offered, and is looked for once.
func TestOffersWhatTheKernelHas(t *testing.T) {
	k := newFake()
	w, _ := k.writer(t, Options{})
	for a, want := range map[service.Algorithm]bool{
		service.AlgorithmDefault: true, service.RoundRobin: true, service.LeastConnections: true, service.SourceHash: true,
		service.Random: false,
	} {
		if got := w.Offers(a); got != want {
			t.Errorf("%q is offered: %t", a, got)
		}
	}
	k.lacks = "mh"
	other, _ := k.writer(t, Options{})
	if !w.Offers(service.SourceHash) || other.Offers(service.SourceHash) {
		t.Error("mh is offered where the kernel lacks it, or was looked for again")
	}
}

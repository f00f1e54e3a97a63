package explain

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kernel/flows"
)

// spread has the kernel spread the connections of a scene over its endpoints.
func (s *scene) spread() {
	var pool portal.Pool
	for _, x := range s.Port.Endpoints {
		pool.Cluster = append(pool.Cluster, portal.Endpoint{Addr: x.Addr, MayHairpin: true})
	}
	s.Port.Mode = service.ModeKernel
	s.apply(portal.Spread{Pool: &pool})
	s.Shown = portal.Shown{}
}

// Of the rules of a Service, those of one endpoint are shown, as each Writer lists them.
func TestRulesOfOneEndpoint(t *testing.T) {
	const nft = "ip table portald, "
	for name, c := range map[string]struct{ to, itself, others []portal.Installed }{
		"iptables": {
			to: []portal.Installed{
				{Place: "iptables -t nat", Text: "-A PREROUTING -j PORTALD-SERVICES"},
				{Place: "iptables -t nat", Text: "-A PORTALD-IP-0A-00 -d 10.96.0.10/32 -p tcp --dport 80 -j PORTALD-SVC-X"},
				{Place: "iptables -t nat", Text: "-A PORTALD-SVC-X ! -s 10.244.0.0/16 -d 10.96.0.10/32 -j PORTALD-MARK-MASQ"},
				{Place: "iptables -t nat", Text: "-A PORTALD-SVC-X -m statistic --probability 0.5 -j PORTALD-SEP-A"},
				{Place: "iptables -t nat", Text: "-A PORTALD-SEP-A -p tcp -j DNAT --to-destination 10.244.0.2:8080"},
			},
			itself: []portal.Installed{
				{Place: "iptables -t nat", Text: "-A PORTALD-SEP-A -s 10.244.0.2/32 -j PORTALD-MARK-MASQ"},
			},
			others: []portal.Installed{
				{Place: "iptables -t nat", Text: "-A PORTALD-SVC-X -j PORTALD-SEP-B"},
				{Place: "iptables -t nat", Text: "-A PORTALD-SEP-B -s 10.244.1.3/32 -j PORTALD-MARK-MASQ"},
				{Place: "iptables -t nat", Text: "-A PORTALD-SEP-B -p tcp -j DNAT --to-destination 10.244.1.3:8080"},
				{Place: "iptables -t nat", Text: "-A PORTALD-SVC-X -p tcp -j DNAT --to-destination 10.244.0.20:8080"},
			},
		},
		"nftables": {
			to: []portal.Installed{
				{Place: nft + "chain nat-prerouting", Text: "jump services"},
				{Place: nft + "set endpoints-ips-2", Text: "10.96.0.10 . tcp . 80 . 0 : 10.244.0.2 . 8080"},
				{Place: nft + "chain service-X", Text: "dnat ip to numgen random mod 2 " +
					"map { 0 : 10.244.0.2 . 8080, 1 : 10.244.1.3 . 8080 }"},
				{Place: nft + "chain service-X", Text: "update @affinity-X { ip saddr timeout 3h } dnat to 10.244.0.2:8080"},
			},
			itself: []portal.Installed{{Place: nft + "set hairpin-connections", Text: "10.244.0.2 . 10.244.0.2"}},
			others: []portal.Installed{
				{Place: nft + "set endpoints-ips-2", Text: "10.96.0.10 . tcp . 80 . 1 : 10.244.1.3 . 8080"},
				{Place: nft + "chain service-X", Text: "update @affinity-X { ip saddr timeout 3h } dnat to 10.244.1.3:8080"},
				{Place: nft + "set hairpin-connections", Text: "10.244.1.3 . 10.244.1.3"},
			},
		},
		"ipvs": {
			to: []portal.Installed{
				{Place: "ipvsadm -S -n", Text: "-A -t 10.96.0.10:80 -s rr"},
				{Place: "ipvsadm -S -n", Text: "-a -t 10.96.0.10:80 -r 10.244.0.2:8080 -m -w 1 (0 connections)"},
			},
			itself: []portal.Installed{{Place: "ipset list", Text: "add PORTALD-LOOP-BACK 10.96.0.10,tcp:80,10.244.0.2"}},
			others: []portal.Installed{
				{Place: "ipvsadm -S -n", Text: "-a -t 10.96.0.10:80 -r 10.244.1.3:8080 -m -w 1 (0 connections)"},
				{Place: "ipset list", Text: "add PORTALD-LOOP-BACK 10.96.0.10,tcp:80,10.244.1.3"},
			},
		},
	} {
		s := newScene()
		s.Port.Endpoints = append(s.Port.Endpoints, endpoint("10.244.0.20:8080", "cart-c", false))
		s.spread()
		s.ask = "pod/shop/cart-a"
		s.Shown.Rules = slices.Concat(c.to, c.others, c.itself)
		r := s.explain(t)
		all := text(r)
		for _, rule := range slices.Concat(c.to, c.itself) {
			if !strings.Contains(all, rule.Text) {
				t.Errorf("%s: lacks %s", name, rule.Text)
			}
		}
		for _, rule := range c.others {
			if strings.Contains(all, rule.Text) {
				t.Errorf("%s: shows %s", name, rule.Text)
			}
		}
		_, own, _ := strings.Cut(all, "= Rules of portald that its own connections to shop/cart:http meet\n")
		if !strings.Contains(own, c.itself[0].Text) || !strings.Contains(own, "are masqueraded") {
			t.Errorf("%s: connections of the pod to itself: %q", name, own)
		}
		if r.Verdict.Status != Good {
			t.Errorf("%s: %+v", name, r.Verdict)
		}
		s.ask = "10.244.1.3:8080" // on another node
		all = text(s.explain(t))
		if strings.Contains(all, "its own connections") || !strings.Contains(all, c.others[0].Text) {
			t.Errorf("%s: a pod of another node: %s", name, all)
		}
	}
}

// A rule that is missing counts for the endpoint that it leads to, and what leads to none is said.
func TestMissingRulesOfOneEndpoint(t *testing.T) {
	s := newScene()
	s.spread()
	s.Shown.Rules = []portal.Installed{{Place: "iptables -t nat", Text: "-A PREROUTING -j PORTALD-SERVICES"}}
	s.Shown.Missing = []string{"iptables -t nat -A PORTALD-SEP-A -p tcp -j DNAT --to-destination 10.244.0.2:8080"}
	s.ask = "shop/cart-a"
	r := s.explain(t)
	const lacks = "Rules that lead to 10.244.0.2:8080 (pod shop/cart-a) as an endpoint of shop/cart:http are missing on"
	if r.Verdict.Status != Wrong || !strings.HasPrefix(r.Verdict.Text, lacks) {
		t.Errorf("verdict %+v", r.Verdict)
	}
	s.ask = "shop/cart-b"
	r = s.explain(t)
	all := text(r)
	none := strings.Contains(all, "none: it gets no new connections")
	if r.Verdict.Status == Wrong || strings.Contains(all, "missing:") || !none {
		t.Errorf("the other endpoint: %+v\n%s", r.Verdict, all)
	}
	if strings.Contains(all, "PREROUTING -j PORTALD-SERVICES\n= ") {
		t.Errorf("rules that lead to other endpoints are shown: %s", all)
	}
}

// In userspace mode rules lead to portald's listener, which leads to the endpoint.
func TestRulesToTheListener(t *testing.T) {
	s := newScene()
	s.ask = "shop/cart-a"
	all := text(s.explain(t))
	const listens = "portald listens at port 11000, and dials 10.244.0.2:8080"
	for _, want := range []string{"-A PREROUTING -j PORTALD-SERVICES", listens} {
		if !strings.Contains(all, want) {
			t.Errorf("lacks %q: %s", want, all)
		}
	}
	s.Port.Endpoints[0].Ready = false
	all = text(s.explain(t))
	if !strings.Contains(all, "portald listens at port 11000, and does not dial 10.244.0.2:8080 for new connections now") {
		t.Errorf("an endpoint that is not ready: %s", all)
	}
}

// Rules are shown of an endpoint's family alone, and of no endpoint that was removed.
func TestPortalsOfAnEndpoint(t *testing.T) {
	s := newScene()
	six := service.Frontend{Addr: netip.MustParseAddrPort("[fd00::10]:80"), Protocol: inet.TCP}
	s.Port.Exposures = append(s.Port.Exposures, service.Exposure{Frontend: six, Kind: service.ClusterIP})
	s.apply(portal.Redirect{Port: 11000})
	all := s.Applied.OwnPortals()
	pod, service, gone := Query{Pod: "shop/cart-a"}, Query{}, Query{Pod: "shop/cart-x"}
	for _, c := range []struct {
		Query
		portals int
	}{{pod, 3}, {service, 4}, {gone, 0}} {
		if n := len(c.Portals(s.Port, all)); n != c.portals || c.HasRules(s.Port) != (n > 0) {
			t.Errorf("%+v: %d portals, want %d", c.Query, n, c.portals)
		}
	}
}

// Of the conntrack table, what an endpoint answers or began is shown of it, and nothing of others.
func TestTrackedFlowsOfAnEndpoint(t *testing.T) {
	s := newScene()
	own, other := s.Port.Endpoints[0].Addr, s.Port.Endpoints[1].Addr
	client, mine := netip.AddrPortFrom(outside, 4000), netip.AddrPortFrom(own.Addr(), 5000)
	db := netip.MustParseAddrPort("10.96.0.20:5432")
	flow := func(from, to, replier netip.AddrPort) flows.Flow {
		return flows.Flow{Protocol: inet.TCP, From: from, To: to, Replier: replier, Status: flows.SeenReply, Timeout: 9}
	}
	q, err := Parse("pod/shop/cart-a", "")
	if err != nil {
		t.Fatal(err)
	}
	q, _ = Find(q, []*service.Port{s.Port}, s.node.Local)
	tracked := q.Tracked(&s.Subject, s.node.Local)
	for _, c := range []struct {
		flows.Flow
		want bool
	}{
		{flow(client, clusterIP, own), true},
		{flow(client, clusterIP, other), false},
		{flow(netip.AddrPortFrom(here, 6000), own, own), true}, // what portald dials
		{flow(mine, clusterIP, other), true},
		{flow(mine, db, netip.MustParseAddrPort("10.244.7.7:5432")), false}, // see Outgoing
		{flow(client, db, netip.AddrPortFrom(own.Addr(), 5432)), false},
	} {
		if tracked(c.Flow) != c.want {
			t.Errorf("%s: shown: %t", flowText(c.Flow, ""), !c.want)
		}
	}
	s.ask = "shop/cart-a"
	s.Flows = []flows.Flow{flow(client, clusterIP, own), flow(netip.AddrPortFrom(here, 6000), own, own),
		flow(mine, clusterIP, other)}
	s.node.Outgoing = []Outgoing{{flow(mine, db, netip.MustParseAddrPort("10.244.7.7:5432")),
		service.PortName{Namespace: "shop", Name: "db", Protocol: inet.TCP}}}
	all := text(s.explain(t))
	for _, want := range []string{
		"tcp 198.51.100.4:4000 to 10.96.0.10:80, led to 10.244.0.2:8080, 9 s left",
		"tcp 192.0.2.1:6000 to 10.244.0.2:8080, 9 s left",
		"tcp 10.244.0.2:5000 to 10.96.0.10:80, led to 10.244.1.3:8080, 9 s left",
		"of its own connections to other Services\nshop/db: tcp 10.244.0.2:5000 to 10.96.0.20:5432",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("lacks %q:\n%s", want, all)
		}
	}
}

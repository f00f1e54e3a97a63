package explain

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/platform/netfilter"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/kernel/flows"
	"github.com/portald/portald/proxy/record"
)

var (
	clusterIP = netip.MustParseAddrPort("10.96.0.10:80")
	nodePort  = netip.MustParseAddrPort("0.0.0.0:30080")
	balancer  = netip.MustParseAddrPort("203.0.113.7:80")
	here      = netip.MustParseAddr("192.0.2.1")
	pod       = netip.MustParseAddr("10.244.0.9")
	outside   = netip.MustParseAddr("198.51.100.4")
	now       = time.Unix(1e9, 0)
)

// scene is a service port of which all is well: a ready endpoint on this node, and one on another.
type scene struct {
	ask  string
	from string
	node Node
	Subject
}

func newScene() *scene {
	name := service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP}
	p := &service.Port{
		Name: name,
		Exposures: []service.Exposure{
			{Frontend: service.Frontend{Addr: nodePort, Protocol: inet.TCP}, Kind: service.NodePort},
			{Frontend: service.Frontend{Addr: clusterIP, Protocol: inet.TCP}, Kind: service.ClusterIP},
			{Frontend: service.Frontend{Addr: balancer, Protocol: inet.TCP}, Kind: service.LoadBalancerIP},
		},
		Endpoints: []service.Endpoint{
			endpoint("10.244.0.2:8080", "cart-a", true), endpoint("10.244.1.3:8080", "cart-b", false),
		},
	}
	s := &scene{ask: "shop/cart", Subject: Subject{Port: p, Shows: true}}
	s.Shown.Add("iptables -t nat", "-A PREROUTING -j PORTALD-SERVICES")
	s.node = Node{
		Name: "node-1", Mode: service.ModeUserspace, Writer: "iptables", Policy: service.DefaultPolicy(),
		NodePorts: []netip.Addr{here}, Rules: &netfilter.Ruleset{},
		Local:  func(a netip.Addr) bool { return a == here },
		Inside: func(a netip.Addr) (bool, bool) { return a == pod || a == here, true },
		Own:    func(_ *netfilter.Table, chain string) bool { return strings.HasPrefix(chain, "PORTALD-") },
	}
	s.apply(portal.Redirect{Port: 11000})
	return s
}

func endpoint(addr, name string, local bool) service.Endpoint {
	at := netip.MustParseAddrPort(addr)
	return service.Endpoint{Addr: at, Pod: "shop/" + name, Local: local, Ready: true, Serving: true}
}

// apply has all frontends lead somewhere.
func (s *scene) apply(to portal.Target) {
	a := &Applied{Port: s.Port, Mode: s.Port.Mode.Or(s.node.Mode), Holders: map[service.Frontend]service.PortName{}}
	for _, x := range s.Port.Exposures {
		a.Claims = append(a.Claims, portal.Portal{Frontend: x.Frontend, Kind: x.Kind, Owner: s.Port.Name, Target: to})
		a.Holders[x.Frontend] = s.Port.Name
	}
	s.Applied = a
}

func (s *scene) explain(t *testing.T) *Report {
	t.Helper()
	q, err := Parse(s.ask, s.from)
	if err != nil {
		t.Fatal(err)
	}
	q, found := Find(q, []*service.Port{s.Port}, s.node.Local)
	if len(found) == 0 {
		return Explain(q, s.node, nil, now)
	}
	return Explain(q, s.node, []Subject{s.Subject}, now)
}

// text is all of a report, a line each with its status in front.
func text(r *Report) string {
	var b strings.Builder
	for _, s := range r.Sections {
		b.WriteString("= " + s.Title + "\n")
		for _, l := range s.Lines {
			b.WriteString(strings.TrimSpace(string(l.Status)+" "+l.Text) + "\n" + strings.Join(l.Details, "\n"))
		}
	}
	return b.String()
}

func TestAllIsWell(t *testing.T) {
	r := newScene().explain(t)
	const well = "Clients of shop/cart:http get 2 of its 2 endpoints through this node."
	if r.Verdict.Status != Good || r.Verdict.Text != well {
		t.Errorf("verdict %+v", r.Verdict)
	}
	if r.Next != "portald conns --service shop/cart" {
		t.Errorf("next %q", r.Next)
	}
	var titles []string
	for _, s := range r.Sections {
		titles = append(titles, s.Title)
		for _, l := range s.Lines {
			if l.Status == Wrong || l.Status == Doubt {
				t.Errorf("%s: %+v", s.Title, l)
			}
		}
	}
	want := []string{"Frontends", "Mode", "Rules of other programs", "Rules of portald, as the host has them now",
		"Clients", "Endpoints for ClusterIP, NodePort, LoadBalancerIP of IPv4", "Last connections"}
	if !slices.Equal(titles, want) {
		t.Errorf("sections %q", titles)
	}
}

// Whatever stands in the way is the verdict, and is said at its place.
func TestWhatStandsInTheWay(t *testing.T) {
	foreign := func(table string, rules ...string) *netfilter.Ruleset {
		text := "*" + table + "\n:PREROUTING ACCEPT [0:0]\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n" +
			":PORTALD-X - [0:0]\n"
		return &netfilter.Ruleset{Tables: netfilter.ParseSaved(text+strings.Join(rules, "\n")+"\nCOMMIT\n",
			netfilter.IPTablesNFT, "ip")}
	}
	ended := func(o record.Outcome) *record.Record {
		client := netip.AddrPortFrom(pod, 4000)
		return &record.Record{ID: 7, Client: client, Outcome: o, Error: "connection refused", Start: now}
	}
	for _, c := range []struct {
		name    string
		edit    func(*scene)
		status  Status
		verdict string // a part of it
		line    string // a part of the report
	}{
		{"held by another", func(s *scene) {
			s.Applied.Holders[s.Port.Exposures[1].Frontend] = service.PortName{Namespace: "shop", Name: "old"}
		}, Wrong, "the older Service shop/old holds it", "held by shop/old"},
		{"not served there", func(s *scene) { s.Applied.Claims = s.Applied.Claims[1:] }, Wrong, "is not served at 30080/tcp",
			"wrong NodePort 30080/tcp (IPv4): not served"},
		{"no address", func(s *scene) { s.Port.Exposures = nil }, Wrong, "has no address", "wrong it has no address"},
		{"the loop hangs", func(s *scene) {
			s.node.Busy, s.Applied = errors.New("it has been writing for 9 s"), nil
		}, Wrong, "the reconcile loop waits for the host", "it has been writing for 9 s"},
		{"not applied yet", func(s *scene) { s.Applied = nil }, Doubt, "was not applied yet",
			"nothing of it was applied yet"},
		{"set aside", func(s *scene) {
			s.Applied.Quarantine, s.Applied.Err, s.Applied.Retry = "rules", errors.New("invalid argument"), now.Add(time.Second)
		}, Wrong, "cannot be served as it is written: invalid argument",
			"set aside (rules): invalid argument; tried again at 01:46:41"},
		{"a problem", func(s *scene) { s.Problems = []string{"spec.ports[1]: SCTP"} }, Doubt, "spec.ports[1]: SCTP",
			"doubt spec.ports[1]: SCTP"},
		{"a rule is missing", func(s *scene) { s.Shown.Missing = []string{"-A PREROUTING -j PORTALD-SERVICES"} }, Wrong,
			"Rules of shop/cart:http are missing", "wrong missing: -A PREROUTING -j PORTALD-SERVICES"},
		{"rules cannot be read", func(s *scene) { s.ShownErr = errors.New("iptables-save: deadline exceeded") }, Doubt,
			"Not all rules of shop/cart:http could be read", "iptables-save: deadline exceeded"},
		{"another's DROP", func(s *scene) {
			s.node.Rules = foreign("raw", "-A PREROUTING -d 10.96.0.10/32 -j DROP")
		}, Wrong, "A rule of another program drops packets", "-A PREROUTING -d 10.96.0.10/32 -j DROP"},
		{"another's DNAT that may match", func(s *scene) {
			s.node.Rules = foreign("nat", "-A PREROUTING -i eth0 -p tcp -j DNAT --to-destination 10.0.0.1",
				"-A PREROUTING -j PORTALD-X")
		}, Doubt, "may match, and sends elsewhere", "doubt before portald's rules, at prerouting: may match"},
		{"DROP of the listener", func(s *scene) {
			s.node.Rules = foreign("filter", "-A INPUT -p tcp -m tcp --dport 11000 -j DROP")
		}, Wrong, "drops packets", "behind portald's rules, at input: drops packets to port 11000 of this host"},
		{"DROP of an endpoint", func(s *scene) {
			s.Port.Mode = service.ModeKernel
			s.apply(portal.Spread{Pool: &portal.Pool{Cluster: []portal.Endpoint{{Addr: s.Port.Endpoints[0].Addr}}}})
			s.node.Rules = foreign("filter", "-A FORWARD -d 10.244.1.3/32 -j REJECT")
		}, Wrong, "rejects packets", "behind portald's rules, at forward: rejects packets to 10.244.1.3:8080"},
		{"rules of others cannot be read", func(s *scene) {
			s.node.Rules.Unread = []string{"nft is not installed"}
		}, Good, "", "doubt not read: nft is not installed"},
		{"left out by source ranges", func(s *scene) {
			s.from, s.Port.SourceRanges = outside.String(), []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		}, Wrong, "198.51.100.4 may not use the load balancer's addresses", "leave out 198.51.100.4"},
		{"within source ranges", func(s *scene) {
			s.from, s.Port.SourceRanges = outside.String(), []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
		}, Good, "", "good loadBalancerSourceRanges 198.51.100.0/24 admit 198.51.100.4"},
		{"source ranges of the other family", func(s *scene) {
			s.from, s.Port.SourceRanges = outside.String(), []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}
		}, Good, "", "good loadBalancerSourceRanges 2001:db8::/32: everyone is admitted by IPv4"},
		{"as many as it may", func(s *scene) { s.Port.Policy.MaxConnections, s.Open = 5, [2]int{5, 0} }, Wrong,
			"as many connections as it may, 5", "wrong 5 connections of IPv4 are open"},
		{"fewer than it may", func(s *scene) { s.Port.Policy.MaxConnections, s.Open = 5, [2]int{4, 0} }, Good, "",
			"good 4 of at most 5 connections of IPv4 are open"},
		{"a client has as many as it may", func(s *scene) {
			s.from, s.Port.Policy.Shares.MaxConnectionsPerClient = pod.String(), 5
			s.OpenOf = map[netip.Addr]int{pod: 5, outside: 1}
		}, Wrong, "10.244.0.9 has as many connections to shop/cart:http as one client may have, 5",
			"wrong 10.244.0.9 has 5 connections open"},
		{"another client has as many as it may", func(s *scene) {
			s.from, s.Port.Policy.Shares.MaxConnectionsPerClient = outside.String(), 5
			s.OpenOf = map[netip.Addr]int{pod: 5, outside: 1}
		}, Good, "", "good 198.51.100.4 has 1 of at most 5 connections of one client open"},
		{"some client has as many as it may", func(s *scene) {
			s.Port.Policy.Shares.MaxConnectionsPerClient = 5
			s.OpenOf = map[netip.Addr]int{pod: 6, outside: 1}
		}, Doubt, "10.244.0.9 has as many connections to shop/cart:http as one client may have, 5",
			"doubt 10.244.0.9 has 6 connections open"},
		{"no client has any", func(s *scene) {
			s.Port.Policy.Shares.MaxConnectionsPerClient, s.OpenOf = 5, map[netip.Addr]int{}
		}, Good, "", "good at most 5 connections of each client address are open"},
		{"rates", func(s *scene) {
			s.node.Policy.Shares.ConnectionRate, s.Port.Policy.Shares.ConnectionRatePerClient = 100, 5
		},
			Good, "", "at most 100 new connections a second are served of each family, at most 5 of one client address"},
		{"no endpoints", func(s *scene) { s.Port.Endpoints = nil }, Wrong, "shop/cart:http has no endpoint of IPv4",
			"no endpoint: clients are refused"},
		{"no endpoints, and clients wait", func(s *scene) {
			s.Port.Endpoints, s.Port.Policy.WaitForEndpoint, s.Waiting = nil, 30*time.Second, 3
			s.Port.Policy.Wake = service.Wake{Kind: "deployment", Name: "cart", Replicas: 2}
		}, Doubt, "has no endpoint of IPv4. New connections wait up to 30s for one.", "a client waits up to 30s"},
		{"clients would wait", func(s *scene) { s.Port.Policy.WaitForEndpoint = 30 * time.Second }, Good, "",
			"a new connection waits up to 30s for an endpoint"},
		{"clients wait in kernel mode", func(s *scene) {
			s.Port.Endpoints, s.Port.Policy.WaitForEndpoint, s.Port.Mode = nil, 30*time.Second, service.ModeKernel
		}, Wrong, "has no endpoint of IPv4.", "no endpoint: clients are refused"},
		{"a workload that is never woken", func(s *scene) {
			s.Port.Policy.Wake = service.Wake{Kind: "deployment", Name: "cart", Replicas: 2}
		}, Good, "", "doubt portald.io/wake scales nothing"},
		{"no endpoints, external Local, for a client outside", func(s *scene) {
			s.from, s.Port.ExternalLocal, s.Port.Endpoints = outside.String(), true, nil
			s.Port.Policy.WaitForEndpoint = 30 * time.Second
			s.apply(portal.Redirect{Port: 11000, Inside: true})
		}, Wrong, "Clients outside the cluster cannot use", "packets are dropped"},
		{"none is ready", func(s *scene) {
			for i := range s.Port.Endpoints {
				s.Port.Endpoints[i].Ready, s.Port.Endpoints[i].Serving = false, false
			}
		}, Wrong, "None of the 2 endpoints of shop/cart:http is ready", "not used: it is not ready"},
		{"none here, internal Local", func(s *scene) {
			s.Port.InternalLocal, s.Port.Endpoints = true, s.Port.Endpoints[1:]
		}, Wrong, "the traffic policy is Local", "on another node"},
		{"none here, external Local, for a client outside", func(s *scene) {
			s.from, s.Port.ExternalLocal, s.Port.Endpoints = outside.String(), true, s.Port.Endpoints[1:]
			s.apply(portal.Redirect{Port: 11000, Inside: true})
		}, Wrong, "Clients outside the cluster cannot use", "for clients inside the cluster alone"},
		{"none here, external Local, for a pod", func(s *scene) {
			s.from, s.Port.ExternalLocal, s.Port.Endpoints = pod.String(), true, s.Port.Endpoints[1:]
			s.apply(portal.Redirect{Port: 11000, Inside: true})
		}, Good, "", "good 10.244.1.3:8080 pod shop/cart-b: used"},
		{"all drained", func(s *scene) { s.Drained = func(netip.AddrPort) bool { return true } }, Wrong, "are drained",
			"not used for new connections: drained"},
		{"all terminate", func(s *scene) {
			for i := range s.Port.Endpoints {
				s.Port.Endpoints[i].Ready, s.Port.Endpoints[i].Terminating = false, true
			}
		}, Doubt, "are terminating", "used although it terminates"},
		{"the last ones failed", func(s *scene) {
			for range 3 {
				s.Records = append(s.Records, ended(record.OutcomeDialFailed))
			}
		}, Wrong, "3 of 3 connections of shop/cart:http failed in the last 1s",
			"doubt 0s ago: id 7, 10.244.0.9:4000: dial_failed"},
		{"one failed", func(s *scene) {
			s.Records = []*record.Record{ended(record.OutcomeOK), ended(record.OutcomeLimit)}
		}, Good, "", "doubt 0s ago: id 7, 10.244.0.9:4000: limit (connection refused)"},
		{"dials of one endpoint fail", func(s *scene) {
			dead := s.Port.Endpoints[0].Addr
			for range 2 {
				r := ended(record.OutcomeOK)
				r.Attempts = []record.Attempt{{Endpoint: dead, Err: "timeout", Times: 1}, {Endpoint: s.Port.Endpoints[1].Addr}}
				s.Records = append(s.Records, r)
			}
		}, Doubt, "(pod shop/cart-a) left 2 of 2 dials of shop/cart:http in the last 1s unanswered",
			"failed after 0s: timeout"},
		{"dials of one endpoint are overtaken", func(s *scene) {
			slow, other := s.Port.Endpoints[0].Addr, s.Port.Endpoints[1].Addr
			for range 2 {
				r := ended(record.OutcomeOK)
				r.Attempts = []record.Attempt{{Endpoint: slow, Err: record.Overtaken, Times: 1}, {Endpoint: other, Hedge: true}}
				s.Records = append(s.Records, r)
			}
		}, Doubt, "was overtaken by another endpoint in 2 of 2 dials of shop/cart:http in the last 1s",
			"was overtaken by another after 0s"},
		{"hedges are overtaken", func(s *scene) {
			for range 2 {
				r := ended(record.OutcomeOK)
				r.Attempts = []record.Attempt{{Endpoint: s.Port.Endpoints[0].Addr, Err: record.Overtaken, Times: 1, Hedge: true},
					{Endpoint: s.Port.Endpoints[1].Addr}}
				s.Records = append(s.Records, r)
			}
		}, Good, "", "was overtaken by another after 0s"},
		{"a stale UDP flow", func(s *scene) {
			s.Flows = []flows.Flow{{Protocol: inet.UDP, From: netip.AddrPortFrom(pod, 4000), To: clusterIP,
				Replier: netip.MustParseAddrPort("10.244.9.9:53"), Status: flows.SeenReply}}
		}, Doubt, "still leads to 10.244.9.9:53", "which is no endpoint now"},
		{"an unanswered flow", func(s *scene) {
			s.Flows = []flows.Flow{{Protocol: inet.TCP, From: netip.AddrPortFrom(pod, 4000), To: clusterIP,
				Replier: s.Port.Endpoints[0].Addr, State: flows.SynSent, Timeout: 9}}
		}, Good, "", "led to 10.244.0.2:8080 SYN_SENT, no answer yet, 9 s left"},
		{"no address for NodePorts", func(s *scene) { s.node.NodePorts = nil }, Doubt, "is served at no address of this host",
			"no address of IPv4 of this host serves NodePorts"},
		{"an address without NodePorts", func(s *scene) {
			s.ask, s.node.Local = "192.0.2.9:30080", func(netip.Addr) bool { return true }
		}, Wrong, "192.0.2.9 is an address of this host that does not serve NodePorts", ""},
		{"the mode changes", func(s *scene) { s.Applied.Mode = service.ModeKernel }, Good, "", "still carried by kernel"},
		{"the mode of the Service", func(s *scene) { s.Port.Mode = service.ModeKernel }, Good, "",
			"kernel, by the annotation"},
		{"the kernel's own choice", spreadBy("nftables", 0, 0), Good, "",
			"the kernel's algorithm is random, as where nothing is asked"},
		{"a scheduler", spreadBy("ipvs", 0, 0), Good, "", "is the scheduler wlc (ipvs.scheduler)"},
		{"a choice of the Service", spreadBy("nftables", service.SourceHash, service.SourceHash), Good, "",
			"is source-hash, by the annotation portald.io/algorithm of the Service"},
		{"a choice of the node", spreadBy("ipvs", 0, service.LeastConnections), Good, "",
			"is least-connections, the default of this node"},
		{"affinity", func(s *scene) {
			s.from, s.Port.Affinity = pod.String(), time.Hour
			s.Bound = func(service.Scope, netip.Addr) (netip.AddrPort, bool) { return s.Port.Endpoints[1].Addr, true }
		}, Good, "", "10.244.0.9 is bound to 10.244.1.3:8080"},
	} {
		s := newScene()
		c.edit(s)
		r := s.explain(t)
		if r.Verdict.Status != c.status || !strings.Contains(r.Verdict.Text, c.verdict) || r.Next == "" {
			t.Errorf("%s: verdict %+v, next %q; want %s: %s", c.name, r.Verdict, r.Next, c.status, c.verdict)
		}
		if !strings.Contains(text(r), c.line) {
			t.Errorf("%s: no line %q in\n%s", c.name, c.line, text(r))
		}
	}
}

// spreadBy has the kernel carry a service port that asks for one algorithm, by one.
func spreadBy(writer string, asked, by service.Algorithm) func(*scene) {
	return func(s *scene) {
		s.Port.Mode, s.node.Writer, s.node.Scheduler = service.ModeKernel, writer, "wlc"
		s.Port.Policy.Algorithm = asked
		pool := &portal.Pool{Algorithm: by}
		for _, x := range s.Port.Endpoints {
			pool.Cluster = append(pool.Cluster, portal.Endpoint{Addr: x.Addr})
		}
		s.apply(portal.Spread{Pool: pool})
	}
}

// Each reason why an endpoint is not used is the one that would have to change.
func TestReasonsOfEndpoints(t *testing.T) {
	all := audience{family: inet.IPv4, kinds: []service.Kind{service.ClusterIP}}
	local := audience{family: inet.IPv4, scope: service.NodeScope, kinds: []service.Kind{service.ClusterIP}}
	for want, c := range map[Reason]struct {
		a    audience
		edit func(*scene, *service.Endpoint)
	}{
		Used:        {all, func(*scene, *service.Endpoint) {}},
		WrongFamily: {all, func(_ *scene, x *service.Endpoint) { x.Addr = netip.MustParseAddrPort("[fd00::2]:80") }},
		NotReady:    {all, func(_ *scene, x *service.Endpoint) { x.Ready, x.Serving = false, false }},
		Gone:        {all, func(_ *scene, x *service.Endpoint) { x.Ready, x.Serving, x.Terminating = false, false, true }},
		Terminating: {all, func(_ *scene, x *service.Endpoint) { x.Ready, x.Terminating = false, true }},
		OtherNode:   {local, func(*scene, *service.Endpoint) {}},
		NotHinted:   {all, func(_ *scene, x *service.Endpoint) { x.NotHinted = true }},
		Drained:     {all, func(s *scene, x *service.Endpoint) { s.Drained = func(netip.AddrPort) bool { return true } }},
		UsedDraining: {all, func(s *scene, x *service.Endpoint) {
			x.Ready, x.Terminating, s.Port.Endpoints[0].Ready = false, true, false
		}},
		AffinityLimit: {all, func(s *scene, x *service.Endpoint) {
			s.Port.Affinity = time.Hour
			s.apply(portal.Spread{Pool: &portal.Pool{Cluster: []portal.Endpoint{{Addr: s.Port.Endpoints[0].Addr}}}})
		}},
	} {
		s := newScene()
		x := &s.Port.Endpoints[1]
		c.edit(s, x)
		e := explained{builder: &builder{report: &Report{}}, Subject: &s.Subject, node: &s.node, query: &Query{}, now: now}
		if got := e.why(c.a, *x); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if e.because(want, *x) == "" {
			t.Errorf("%s is not said", want)
		}
	}
}

// An address that several Services claim is explained by the one that holds it.
func TestContestedAddress(t *testing.T) {
	s, other := newScene(), newScene()
	other.Port.Name.Name = "zebra"
	other.Applied.Holders[other.Port.Exposures[1].Frontend] = s.Port.Name
	q, err := Parse(clusterIP.String(), "")
	if err != nil {
		t.Fatal(err)
	}
	q, found := Find(q, []*service.Port{other.Port, s.Port}, s.node.Local)
	if len(found) != 2 {
		t.Fatalf("found %v", found)
	}
	r := Explain(q, s.node, []Subject{s.Subject, other.Subject}, now)
	if r.Verdict.Status != Good || !strings.Contains(text(r), "also claimed by shop/zebra:http") {
		t.Errorf("%+v\n%s", r.Verdict, text(r))
	}
}

// An address that a Service has for TCP and for UDP, as for DNS, is explained for both.
func TestAnAddressOfTwoProtocols(t *testing.T) {
	tcp, udp := newScene(), newScene()
	udp.Port.Name.Port, udp.Port.Name.Protocol = "udp", inet.UDP
	for i := range udp.Port.Exposures {
		udp.Port.Exposures[i].Frontend.Protocol = inet.UDP
	}
	udp.apply(portal.Redirect{Port: 11001})
	for _, ask := range []netip.AddrPort{clusterIP, netip.AddrPortFrom(here, nodePort.Port())} {
		q, err := Parse(ask.String(), "")
		if err != nil {
			t.Fatal(err)
		}
		q, found := Find(q, []*service.Port{udp.Port, tcp.Port}, tcp.node.Local)
		if len(found) != 2 {
			t.Fatalf("%s: found %v", ask, found)
		}
		r := Explain(q, tcp.node, []Subject{tcp.Subject, udp.Subject}, now)
		for _, want := range []string{"listener at port 11000", "listener at port 11001"} {
			if !strings.Contains(text(r), want) || r.Verdict.Status != Good {
				t.Errorf("%s: without %q: %+v\n%s", ask, want, r.Verdict, text(r))
			}
		}
	}
}

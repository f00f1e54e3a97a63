package explain

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// turn is a service port in userspace mode that may change, and the node.
type turn struct {
	node FlipNode
	Flipped
}

func newTurn(annotations ...string) *turn {
	s := newScene()
	t := &turn{FlipNode{Node: s.node, Offers: func(a service.Algorithm) bool { return a != service.LeastConnections },
		Pods: portal.LocalDetector{Sources: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}},
		Flipped{Subject: s.Subject, Annotations: map[string]string{}}}
	for _, a := range annotations {
		name, value, _ := strings.Cut(a, ": ")
		t.Annotations["portald.io/"+name] = value
	}
	return t
}

// What endpoints or clients have to be made for is said apart.
func TestFlipChangesTheMeaning(t *testing.T) {
	const kernel, userspace = service.ModeKernel, service.ModeUserspace
	balanced := func(f *turn) {
		f.Port.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		f.Port.ExternalLocal = true
		f.Port.Exposures = append(f.Port.Exposures, service.Exposure{Kind: service.LoadBalancerIP})
	}
	for _, c := range []struct {
		to         service.Mode
		annotation string
		edit       func(*turn)
		want       string
	}{
		{userspace, "retries: 2", func(*turn) {}, ""},
		{userspace, "client-address: proxy-v2", func(*turn) {}, "connections begin with a PROXY protocol header"},
		{kernel, "client-address: proxy-v2", func(*turn) {}, "connections lose their PROXY protocol header"},
		{userspace, "client-address: proxy-v2", func(f *turn) { f.Port.Name.Protocol = inet.UDP }, ""},
		{userspace, "client-address: transparent", func(*turn) {},
			"the address that endpoints see of a client is another one"},
		{userspace, "retries: 2", balanced, "who is outside loadBalancerSourceRanges is told by other means, with " +
			"externalTrafficPolicy Local"},
		{userspace, "retries: 2", func(f *turn) { balanced(f); f.Port.ExternalLocal = false }, ""},
	} {
		turn := newTurn(c.annotation)
		if turn.Port.Mode = kernel; c.to == kernel {
			turn.Port.Mode = userspace
		}
		c.edit(turn)
		if got := strings.Join(turn.flip(c.to).Meaning, "; "); got != c.want {
			t.Errorf("to %s with %s: %q, want %q", c.to, c.annotation, got, c.want)
		}
	}
}

func (t *turn) flip(to service.Mode) *Report {
	return Flip("shop/cart", t.node, []Flipped{t.Flipped}, to, now)
}

// What a change of the mode brings is said as far as it applies to the service port, and nothing else.
func TestFlip(t *testing.T) {
	const kernel, userspace = service.ModeKernel, service.ModeUserspace
	inKernel := func(f *turn) { f.Port.Mode = kernel }
	for _, c := range []struct {
		name        string
		to          service.Mode
		annotations []string
		edit        func(*turn)
		says        []string // lines, or what they begin with
		not         []string // parts of lines
	}{
		{"to the kernel, nothing set", kernel, nil, func(f *turn) {}, []string{
			"userspace now, by the default of this node",
			"doubt pods, by ClusterIP: endpoints see the client's own address, now this node's address",
			"ingress of the endpoints, by podSelector, namespaceSelector or ipBlock: matches the clients",
			"egress of pods that are clients: they connect to the endpoint",
			"random, now round-robin",
			"a connection whose endpoint refuses or does not answer fails: no other is tried (now up to 4 dials)",
			"doubt no connection gets a record", "none is open now",
		}, []string{"NodePort", "other clients", "PROXY", "affinity", "stops counting", "drained", "ejected", "waits",
			"loadBalancerSourceRanges", "maxConnections", "conntrack has them", "IPVS", "iptables"}},
		{"to userspace, nothing set", userspace, nil, inKernel, []string{
			"kernel now, by the annotation portald.io/mode of the Service",
			"doubt pods, by ClusterIP: endpoints see this node's address, now the client's own address",
			"ingress of the endpoints, by podSelector, namespaceSelector or ipBlock: matches this node",
			"egress of pods that are clients: they connect to this node", "round-robin, now random",
			"a connection whose endpoint refuses or does not answer is tried at others, up to 4 dials",
			"an endpoint that fails 3 connections in a row is left out", "each connection gets a record when it ends",
		}, []string{"PROXY", "affinity", "starts to count", "connection log has", "NodePort"}},
		{"external Local keeps the addresses of clients outside", kernel, nil, func(f *turn) { f.Port.ExternalLocal = true },
			[]string{"doubt clients, by NodePort, LoadBalancerIP: endpoints see the client's own address, now this node's"},
			nil},
		{"pods are not known", kernel, nil, func(f *turn) { f.node.Pods = portal.LocalDetector{} },
			[]string{"doubt clients, by ClusterIP: endpoints see the client's own"}, nil},
		{"all are masqueraded", kernel, nil, func(f *turn) { f.node.Masquerade.All = true }, nil,
			[]string{"endpoints see", "ingress"}},
		{"transparent", kernel, []string{"client-address: transparent"}, func(*turn) {}, []string{
			"doubt pods, by ClusterIP: endpoints see the client's own address, now the client's own address where answers pass",
			"doubt other clients, by ClusterIP: endpoints see this node's address, now the client's",
			"doubt portald.io/client-address: transparent stops counting"}, nil},
		{"a PROXY header ends", kernel, []string{"client-address: proxy-v2"}, func(*turn) {}, []string{
			"doubt endpoints get no PROXY protocol header any more", "doubt portald.io/client-address: proxy-v2 stops counting",
		}, nil},
		{"a PROXY header of the node's ends", kernel, nil, func(f *turn) {
			f.node.Policy.ClientAddress = service.AddressProxyV2
		}, []string{"doubt endpoints get no PROXY protocol header any more"}, []string{"stops counting"}},
		{"a PROXY header begins", userspace, []string{"client-address: proxy-v2"}, inKernel, []string{
			"doubt each connection begins with a PROXY protocol header", "portald.io/client-address: proxy-v2 starts to count"},
			nil},
		{"UDP has no header", kernel, []string{"client-address: proxy-v2"}, func(f *turn) {
			f.Port.Name.Protocol, f.Open = inet.UDP, [2]int{1, 0}
		}, []string{"open now: 1 session", "a client that goes on sending"}, []string{"PROXY", "connect succeeds", "dials)"}},
		{"annotations stop, but for what the kernel does", kernel, []string{"retries: 5", "max-connections: 0", "retry-on: x",
			"max-age: 10m", "kernel-records: all", "idle-timeout: 5m"}, func(f *turn) { f.node.Refused = []string{"max-age"} },
			[]string{
				"doubt portald.io/retries: 5 stops counting: a connection has one endpoint",
				"doubt portald.io/idle-timeout: 5m stops counting",
				"portald.io/kernel-records: all starts to count; until now each connection has a record",
				"a connection whose endpoint refuses or does not answer fails: no other is tried (now up to 6 dials)",
				"each connection gets a record when the kernel forgets it",
			}, []string{"max-connections: 0", "retry-on", "max-age", "no connection gets"}},
		{"annotations start", userspace, []string{"retries: 0", "slow-start: 30s", "kernel-records: failures",
			"connection-log: failures"}, inKernel, []string{
			"portald.io/slow-start: 30s starts to count; until now new endpoints get connections at once",
			"portald.io/kernel-records: failures stops counting: each connection has a record",
			"the connection log has those that connection-log lets in (failures)",
		}, []string{"retries: 0", "tried at others"}},
		{"debugged for a while", kernel, nil, func(f *turn) {
			f.Port.Mode, f.Port.DebugUntil = userspace, new(time.Date(2026, 11, 28, 10, 20, 0, 0, time.UTC))
		}, []string{"userspace now, by the annotation portald.io/debug-until of the Service (until 2026-11-28T10:20:00Z, " +
			"then it has its own mode again)"}, nil},
		{"an algorithm that the kernel has", kernel, []string{"algorithm: source-hash"}, func(*turn) {}, nil,
			[]string{"source-hash"}},
		{"one that it does not have", kernel, []string{"algorithm: least-connections"}, func(*turn) {}, []string{
			"doubt portald.io/algorithm: least-connections is not possible by the kernel with the writer iptables",
			"random, now least-connections"}, nil},
		{"the scheduler of IPVS", kernel, nil, func(f *turn) {
			f.node.Writer, f.node.Scheduler, f.Port.ExternalLocal = "ipvs", "lc", true
		}, []string{"the scheduler lc (ipvs.scheduler), now round-robin",
			"doubt by NodePorts and other external addresses, clients inside the cluster get this node's endpoints alone"}, nil},
		{"clients are bound", kernel, nil, func(f *turn) {
			f.Port.Affinity = time.Hour
			f.Bindings = map[netip.AddrPort]int{f.Port.Endpoints[0].Addr: 3, f.Port.Endpoints[1].Addr: 4}
		}, []string{"doubt ClientIP affinity begins anew: the bindings of 7 clients are forgotten",
			"iptables remembers the last 100 clients", "a client whose endpoint fails stays bound"}, nil},
		{"affinity, and nobody bound", kernel, nil, func(f *turn) { f.Port.Affinity = time.Hour }, []string{
			"ClientIP affinity begins anew, and no client is bound now"}, nil},
		{"affinity of very many endpoints", kernel, nil, func(f *turn) {
			f.Port.Affinity = time.Hour
			for i := range 1000 {
				at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 245, byte(i >> 8), byte(i)}), 8080)
				f.Port.Endpoints = append(f.Port.Endpoints, service.Endpoint{Addr: at, Ready: true, Serving: true})
			}
		}, []string{"doubt with affinity, 1000 of the 1002 endpoints of IPv4 serve from this node"}, nil},
		{"affinity to userspace", userspace, nil, func(f *turn) {
			f.Port.Mode, f.Port.Affinity = kernel, time.Hour
		}, []string{
			"doubt ClientIP affinity begins anew: the kernel's bindings are forgotten"}, []string{"iptables"}},
		{"endpoints left out come back", kernel, nil, func(f *turn) {
			f.Drained = func(at netip.AddrPort) bool { return at == f.Port.Endpoints[0].Addr }
			f.Ejected = func(at netip.AddrPort) string { return "it failed" }
		}, []string{"doubt 1 endpoint of the Service, drained now, would get new connections",
			"doubt 2 endpoints of the Service, ejected now, would get new connections"}, nil},
		{"dials that helped", kernel, nil, func(f *turn) {
			for i := range 5 {
				r := &record.Record{Outcome: record.OutcomeOK, Start: now, BytesFromEndpoint: 1}
				r.Attempts = []record.Attempt{{Endpoint: f.Port.Endpoints[0].Addr, Proxy: clusterIP, Times: 1}}
				if i < 2 {
					r.Attempts[0].Err = "timeout"
					r.Attempts = append(r.Attempts, record.Attempt{Endpoint: f.Port.Endpoints[1].Addr, Proxy: clusterIP})
				}
				f.Records = append(f.Records, r)
			}
		}, []string{"doubt no other endpoint is tried: 2 of the last 5 connections reached one by another dial"},
			[]string{"now up to"}},
		{"clients wait", kernel, []string{"wait-for-endpoint: 30s"}, func(f *turn) { f.Waiting = 2 }, []string{
			"doubt 2 clients wait for an endpoint now", "doubt portald.io/wait-for-endpoint: 30s stops counting"}, nil},
		{"limits of the node", kernel, []string{"max-connections: 0"}, func(f *turn) {
			f.node.Policy.MaxConnections, f.node.Policy.Shares.ConnectionRate = 5, 7
			f.node.Policy.WaitForEndpoint = time.Minute
		}, []string{"doubt connectionRate 7 of this node stops counting", "doubt waitForEndpoint 1m0s of this node stops"},
			[]string{"maxConnections 5"}},
		{"source ranges", userspace, nil, func(f *turn) {
			f.Port.Mode, f.Port.SourceRanges = kernel, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		}, []string{"clients outside loadBalancerSourceRanges are dropped, or reset where portald alone"}, nil},
		{"failures are recorded", kernel, []string{"kernel-records: failures"}, func(*turn) {}, []string{
			"doubt a connection that failed gets a record", "portald_kernel_connections_total counts them"}, nil},
		{"connections are open", kernel, nil, func(f *turn) { f.Open = [2]int{3, 1} }, []string{
			"open now: 4 connections", "they go on by portald until they end"}, nil},
		{"the kernel has connections", userspace, nil, func(f *turn) { f.Port.Mode, f.Carried = kernel, 2 }, []string{
			"open now: 2 connections", "they go on by the kernel as long as"}, nil},
		{"other ports of the Service", kernel, nil, func(f *turn) { f.Others = []string{"dns", "metrics"} }, []string{
			"the annotation is of the Service: its other ports change too (dns, metrics)"}, nil},
	} {
		f := newTurn(c.annotations...)
		c.edit(f)
		r := f.flip(c.to)
		all := text(r)
		for _, line := range c.says {
			if !strings.Contains("\n"+all, "\n"+line) {
				t.Errorf("%s: no line %q in\n%s", c.name, line, all)
			}
		}
		for _, part := range c.not {
			if strings.Contains(all, part) {
				t.Errorf("%s: %q in\n%s", c.name, part, all)
			}
		}
		if r.As != c.to.String() || !strings.HasPrefix(r.Next, "kubectl annotate service -n shop cart portald.io/mode") {
			t.Errorf("%s: as %q, next %q", c.name, r.As, r.Next)
		}
	}
}

// The verdict names what gets worse, or says that nothing does, that it is so already, or that it cannot be.
func TestVerdictsOfFlips(t *testing.T) {
	for _, c := range []struct {
		name    string
		to      service.Mode
		edit    func(*turn)
		status  Status
		verdict string
		next    string
	}{
		{"worse", service.ModeKernel, func(*turn) {}, Doubt,
			"As kernel, shop/cart:http would lose or change something: source address, records and metrics.",
			"kubectl annotate service -n shop cart portald.io/mode=kernel --overwrite"},
		{"not worse", service.ModeUserspace, func(f *turn) { f.Port.Mode, f.node.Masquerade.All = service.ModeKernel, true },
			Good, "As userspace, shop/cart:http would lose nothing that it has now.",
			"kubectl annotate service -n shop cart portald.io/mode-"},
		{"so already", service.ModeUserspace, func(*turn) {}, Good,
			"shop/cart:http is carried in mode userspace already: nothing would change.", "portald explain shop/cart:http"},
		{"refused", service.ModeKernel, func(f *turn) { f.node.Refused = []string{service.AllSettings} }, Wrong,
			"cannot be carried in mode kernel: this node refuses the annotation", "portald explain shop/cart:http"},
		{"Windows", service.ModeKernel, func(f *turn) { f.node.Writer = "netsh" }, Wrong,
			"cannot be carried in mode kernel: it takes the kernel of Linux", "portald explain shop/cart:http"},
		{"SCTP", service.ModeUserspace, func(f *turn) {
			f.Port.Mode, f.Port.Name.Protocol = service.ModeKernel, inet.SCTP
		}, Wrong, "cannot be carried in mode userspace: portald does not carry sctp", "portald explain shop/cart:http"},
	} {
		f := newTurn()
		c.edit(f)
		r := f.flip(c.to)
		if r.Verdict.Status != c.status || !strings.Contains(r.Verdict.Text, c.verdict) || r.Next != c.next {
			t.Errorf("%s: %+v, next %q", c.name, r.Verdict, r.Next)
		}
		if len(r.Sections) != 1 && c.status == Wrong {
			t.Errorf("%s: more than why not\n%s", c.name, text(r))
		}
		if b, err := json.Marshal(r); err != nil || !strings.Contains(string(b), `"as":"`+c.to.String()+`"`) {
			t.Errorf("%s: %s, %v", c.name, b, err)
		}
	}
	if r := Flip("shop/none", FlipNode{}, nil, service.ModeKernel, now); r.Known() || r.Verdict.Status != Wrong {
		t.Errorf("what is not known: %+v", r)
	}
}

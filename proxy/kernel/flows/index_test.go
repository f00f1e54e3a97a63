package flows

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/record"
)

// cart is a service port at the addresses of the captured events.
func cart() *service.Port {
	p := &service.Port{Name: service.PortName{Namespace: "shop", Name: "cart", Port: "http", Protocol: inet.TCP}}
	for i, at := range []string{"0.0.0.0:30080", "10.96.0.1:80", "[fd00:96::1]:80"} {
		kind := []service.Kind{service.NodePort, service.ClusterIP, service.LoadBalancerIP}[i]
		p.Exposures = append(p.Exposures, service.Exposure{
			Frontend: service.Frontend{Addr: netip.MustParseAddrPort(at), Protocol: inet.TCP}, Kind: kind,
		})
	}
	for i, at := range []string{"127.0.0.1:8080", "[::1]:8080"} {
		p.Endpoints = append(p.Endpoints, service.Endpoint{
			Addr: netip.MustParseAddrPort(at), Ready: true, Serving: true, Node: "here", Pod: fmt.Sprintf("shop/cart-%c", 'a'+i),
		})
	}
	return p
}

// bed is a Recorder in kernel mode whose events come from the test.
type bed struct {
	*Recorder
	t    *testing.T
	said []*record.Record
}

func newBed(t *testing.T, change func(*Options)) *bed {
	b := &bed{t: t}
	opts := Options{
		Mode: service.ModeKernel, Policy: service.Policy{KernelRecords: service.RecordsAll},
		Own:      func(a netip.Addr) bool { return a.IsLoopback() },
		Listener: func(at netip.AddrPort) bool { return at.Port() >= 11000 },
		NextID:   func() uint64 { return 7 },
		Observe:  func(r *record.Record) { b.said = append(b.said, r) },
	}
	if change != nil {
		change(&opts)
	}
	b.Recorder = New(opts)
	return b
}

// end reports the end of a captured flow, and returns its record, nil if it has none.
func (b *bed) end(to string) *record.Record {
	b.t.Helper()
	b.said = nil
	event := capturedEvents(b.t)[to]
	if event == nil {
		b.t.Fatalf("there is no event of %s", to)
	}
	b.event(false, event)
	if len(b.said) == 0 {
		return nil
	}
	return b.said[0]
}

func TestRecord(t *testing.T) {
	b := newBed(t, func(o *Options) {
		o.WhoIs = func(a netip.Addr) (service.Workload, bool) {
			return service.Workload{Pod: "front/web", Node: "n1", Zone: "z1"}, a == netip.MustParseAddr("10.96.0.1")
		}
	})
	b.timeouts.TCP[TimeWait] = time.Second
	b.Replace([]*service.Port{cart()})
	r := b.end("tcp 10.96.0.1:80")
	if r == nil || r.ID != 7 || r.CarriedBy != record.Kernel || r.Service != cart().Name ||
		r.Portal != service.ClusterIP || r.Endpoint.Pod != "shop/cart-a" || r.Endpoint.Node != "here" ||
		r.Proxy() != r.Client || r.ClientPod != "front/web" || r.ClientZone != "z1" || r.Connect >= 0 || r.FirstByte >= 0 ||
		r.Outcome != record.OutcomeOK || r.BytesFromClient < 200 || r.BytesToClient < 200 || r.Duration <= 0 ||
		r.Duration > 500*time.Millisecond {
		t.Errorf("%+v", r)
	}
	if r := b.end("tcp [fd00:96::1]:80"); r == nil || r.Portal != service.LoadBalancerIP ||
		r.Endpoint.Pod != "shop/cart-b" {
		t.Errorf("%+v", r)
	}
	for _, to := range []string{"udp 10.96.0.1:80", "tcp 10.96.0.1:81"} {
		if r := b.end(to); r != nil {
			t.Errorf("%s is no frontend, and has a record: %+v", to, r)
		}
	}
}

// A Service says whether it wants records, and the daemon what those want that say nothing. Demand follows.
func TestWanted(t *testing.T) {
	b := newBed(t, nil)
	for _, c := range []struct {
		daemon, service     service.Records
		mode                service.Mode
		demand              service.Records
		ofSuccess, ofRefuse bool
	}{
		{service.RecordsOff, service.RecordsDefault, service.ModeDefault, service.RecordsOff, false, false},
		{service.RecordsFailures, service.RecordsDefault, service.ModeDefault, service.RecordsFailures, false, true},
		{service.RecordsAll, service.RecordsDefault, service.ModeKernel, service.RecordsAll, true, true},
		{service.RecordsOff, service.RecordsAll, service.ModeDefault, service.RecordsAll, true, true},
		{service.RecordsAll, service.RecordsOff, service.ModeDefault, service.RecordsOff, false, false},
		{service.RecordsAll, service.RecordsFailures, service.ModeDefault, service.RecordsFailures, false, true},
		{service.RecordsAll, service.RecordsAll, service.ModeUserspace, service.RecordsOff, true, true}, // still open
	} {
		p := cart()
		for i := range p.Exposures { // all four ports of the captured events
			for port := range uint16(4) {
				x := p.Exposures[i]
				x.Frontend.Addr = netip.AddrPortFrom(x.Frontend.Addr.Addr(), 80+port)
				p.Exposures = append(p.Exposures, x)
			}
		}
		p.Policy.KernelRecords, p.Mode = c.service, c.mode
		b.SetPolicy(service.Policy{KernelRecords: c.daemon})
		b.Update([]service.Change{{Name: p.Name, Port: p}})
		if got := b.index.demand(); got != c.demand {
			t.Errorf("%+v: demand is %s", c, got)
		}
		if ok, refused := b.end("tcp 10.96.0.1:80") != nil, b.end("tcp 10.96.0.1:81") != nil; ok != c.ofSuccess ||
			refused != c.ofRefuse {
			t.Errorf("%+v: records %t of a success, %t of a refusal", c, ok, refused)
		}
	}
	b.Replace(nil)
	if got := b.index.demand(); got != service.RecordsOff {
		t.Errorf("nothing is left, and demand is %s", got)
	}
}

// A service port, or an endpoint, that is gone is remembered for a while, behind those that came after it.
func TestGone(t *testing.T) {
	b := newBed(t, nil)
	b.Replace([]*service.Port{cart()})
	less := cart()
	less.Endpoints = nil
	b.Update([]service.Change{{Name: less.Name, Port: less}})
	if r := b.end("tcp 10.96.0.1:80"); r == nil || r.Endpoint.Pod != "shop/cart-a" {
		t.Errorf("the endpoint is gone: %+v", r)
	}
	b.Update([]service.Change{{Name: less.Name}})
	if r := b.end("tcp 10.96.0.1:80"); r == nil || r.Service != less.Name || r.Endpoint.Pod != "shop/cart-a" {
		t.Errorf("the Service is gone: %+v", r)
	}
	successor := cart()
	successor.Name.Name, successor.Created = "heir", time.Now()
	b.Update([]service.Change{{Name: successor.Name, Port: successor}})
	if r := b.end("tcp 10.96.0.1:80"); r == nil || r.Service != successor.Name {
		t.Errorf("another Service has the address: %+v", r)
	}
	b.index.update(nil, time.Now().Add(keep+time.Second))
	if n := len(b.index.ports); n != 1 {
		t.Errorf("%d service ports are known, want the one that is served", n)
	}
	b.index.update([]service.Change{{Name: successor.Name}}, time.Now())
	b.index.update(nil, time.Now().Add(keep+time.Second))
	if len(b.index.ports)+len(b.index.claims) != 0 || !b.index.empty() {
		t.Errorf("left: %v, %v", b.index.ports, b.index.claims)
	}
}

// The memory of former endpoints is bounded, and all of it is forgotten.
func TestRememberedIsBounded(t *testing.T) {
	b := newBed(t, nil)
	x, now := b.index, time.Now()
	big := func(name string, at byte) *service.Port {
		p := cart()
		p.Name.Name, p.Endpoints = name, nil
		for i := range 1000 {
			p.Endpoints = append(p.Endpoints, service.Endpoint{
				Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, at, byte(i >> 8), byte(i)}), 80),
			})
		}
		return p
	}
	most := 0
	for i := range byte(100) { // endpoints that go, Services that go, and one that comes back each time
		name := fmt.Sprint("s", i)
		x.update([]service.Change{{Name: cart().Name, Port: big("cart", i)}}, now)
		x.update([]service.Change{{Name: big(name, i).Name, Port: big(name, i)}}, now)
		x.update([]service.Change{{Name: big(name, i).Name}, {Name: cart().Name}}, now)
		size := len(x.expiring)
		for _, k := range x.ports {
			size += len(k.former)
			if k.isGone() {
				size += len(k.Endpoints)
			}
		}
		most = max(most, size)
		if size != x.gone || size > maxRemembered {
			t.Fatalf("%d are remembered and %d counted, want %d at most", size, x.gone, maxRemembered)
		}
	}
	if most < maxRemembered*9/10 {
		t.Errorf("only %d were remembered, though there is room", most)
	}
	b.Replace([]*service.Port{cart()})
	x.update(nil, now.Add(2*keep))
	if x.gone != 0 || len(x.ports) != 1 || len(x.expiring) != 0 {
		t.Errorf("later %d are remembered, %d service ports known", x.gone, len(x.ports))
	}
}

// Of two Services with one address the older holds it, whatever comes first.
func TestHolder(t *testing.T) {
	older, younger := cart(), cart()
	older.Name.Name, younger.Name.Name = "z", "a"
	older.Created, younger.Created = time.Unix(1, 0), time.Unix(2, 0)
	for _, order := range [][]*service.Port{{older, younger}, {younger, older}} {
		b := newBed(t, nil)
		b.Replace(order)
		if r := b.end("tcp 10.96.0.1:80"); r == nil || r.Service != older.Name {
			t.Errorf("%+v", r)
		}
		b.Replace([]*service.Port{younger})
		if r := b.end("tcp 10.96.0.1:80"); r == nil || r.Service != younger.Name {
			t.Errorf("the older is gone: %+v", r)
		}
	}
}

// A flow that leads to a listener of the daemon has a record of the daemon.
func TestListener(t *testing.T) {
	b := newBed(t, func(o *Options) { o.Listener = func(at netip.AddrPort) bool { return at.Port() == 8080 } })
	p := cart()
	p.Endpoints = nil
	b.Replace([]*service.Port{p})
	if r := b.end("tcp 10.96.0.1:80"); r != nil {
		t.Errorf("%+v", r)
	}
	b.Replace([]*service.Port{cart()}) // an endpoint there is known better
	if r := b.end("tcp 10.96.0.1:80"); r == nil {
		t.Error("no record of a flow to an endpoint")
	}
}

// BenchmarkRecord is from an event to its record.
func BenchmarkRecord(b *testing.B) {
	r := New(Options{
		Mode: service.ModeKernel, Policy: service.Policy{KernelRecords: service.RecordsAll},
		Own: func(netip.Addr) bool { return false }, Listener: func(netip.AddrPort) bool { return false },
		NextID: func() uint64 { return 7 }, Observe: func(*record.Record) {},
	})
	r.Replace([]*service.Port{cart()})
	event := capturedEvents(b)["tcp 10.96.0.1:80"]
	b.ReportAllocs()
	for b.Loop() {
		r.event(false, event)
	}
}

package userspace

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
	"github.com/portald/portald/proxy/splice/goroutine"
)

// Where clients wait for an endpoint, portals lead to a front though there is none; clients from outside under a Local
// policy are dropped as they are where other nodes have one.
func TestTargetsWhereClientsWait(t *testing.T) {
	to := &portal.Redirect{Port: 11000}
	toFront, inside := portal.Redirect{Port: 11000}, portal.Redirect{Port: 11000, Inside: true}
	there := service.Endpoint{Addr: netip.MustParseAddrPort("10.1.0.2:80"), Ready: true, Serving: true}
	for _, c := range []struct {
		name               string
		local              bool
		endpoints          []service.Endpoint
		internal, external portal.Target
	}{
		{"nobody", false, nil, toFront, toFront},
		{"nobody, local policies", true, nil, toFront, inside},
		{"elsewhere, local policies", true, []service.Endpoint{there}, toFront, inside},
		{"somebody", false, []service.Endpoint{there}, toFront, toFront},
	} {
		for _, protocol := range []inet.Protocol{inet.TCP, inet.UDP} {
			for _, direct := range []bool{false, true} {
				p := &service.Port{InternalLocal: c.local, ExternalLocal: c.local, Endpoints: c.endpoints,
					Name: service.PortName{Protocol: protocol}}
				p.Exposures = []service.Exposure{{Kind: service.ClusterIP}, {Kind: service.NodePort},
					{Kind: service.ExternalIP}, {Kind: service.LoadBalancerIP}}
				for i := range p.Exposures {
					p.Exposures[i].Frontend.Addr = netip.MustParseAddrPort("10.96.0.1:80")
				}
				leads, usable := targets{p, direct, true}, p.UsableEndpoints(inet.IPv4)
				for _, got := range leads.portals(inet.IPv4, usable, to) {
					want := c.external
					if got.Kind == service.ClusterIP {
						want = c.internal
					}
					if got.Target != want {
						t.Errorf("%s: %s leads to %#v, want %#v", c.name, got.Kind, got.Target, want)
					}
				}
				if !leads.wanted(usable, inet.IPv4) {
					t.Errorf("%s: no front", c.name)
				}
			}
		}
	}
}

// No listener carries SCTP: its clients are refused, whoever serves, and no proxy port is taken.
func TestTargetsOfSCTP(t *testing.T) {
	p := &service.Port{Name: service.PortName{Name: "call", Protocol: inet.SCTP}, Affinity: 1,
		Endpoints: []service.Endpoint{{Addr: netip.MustParseAddrPort("10.1.0.1:80"), Ready: true, Serving: true}}}
	p.Exposures = []service.Exposure{
		{Frontend: service.Frontend{Addr: netip.MustParseAddrPort("10.96.0.1:80"), Protocol: inet.SCTP}},
		{Frontend: service.Frontend{Addr: netip.MustParseAddrPort("0.0.0.0:30080"), Protocol: inet.SCTP},
			Kind: service.NodePort},
	}
	core, err := splice.New(splice.Options{}, goroutine.Open(goroutine.Host{}))
	if err != nil {
		t.Fatal(err)
	}
	c := New(Options{Core: core, Localhost: [2]bool{true, true}})
	for _, carrier := range []interface {
		Serve(*service.Port) ([]portal.Portal, error)
		ProxyPorts() map[portal.ProxyPort]bool
	}{NewPlan(DefaultPortRange(), service.Policy{WaitForEndpoint: 1}), c} {
		portals, err := carrier.Serve(p)
		reject := portal.Reject{}
		if err != nil || len(portals) != 2 || portals[0].Target != reject || portals[1].Target != reject {
			t.Errorf("%+v, %v, want two that reject", portals, err)
		}
		if open := carrier.ProxyPorts(); len(open) > 0 {
			t.Errorf("opened %v", open)
		}
	}
	if err := c.Retire(nil, []service.Change{{Name: p.Name, Port: p}}); err != nil {
		t.Error(err) // NodePorts at loopback stay of Services that the kernel carries
	}
	if _, err := c.proxies.ports.take(frontKey{name: p.Name}, 0, nil); !errors.Is(err, errNoPort) {
		t.Errorf("a proxy port: %v", err)
	}
}

// Where the portals of each kind lead, by who serves and by traffic policy.
func TestTargets(t *testing.T) {
	const port = 11000
	toFront, inside := portal.Redirect{Port: port}, portal.Redirect{Port: port, Inside: true}
	reject, drop := portal.Reject{}, portal.Drop{}
	here := service.Endpoint{Addr: netip.MustParseAddrPort("10.1.0.1:80"), Local: true, Ready: true, Serving: true}
	there := service.Endpoint{Addr: netip.MustParseAddrPort("10.1.0.2:80"), Ready: true, Serving: true}
	leavingHere := service.Endpoint{Addr: netip.MustParseAddrPort("10.1.0.3:80"), Local: true, Serving: true,
		Terminating: true}
	sixHere := service.Endpoint{Addr: netip.MustParseAddrPort("[fd00::1]:80"), Local: true, Ready: true, Serving: true}
	for _, c := range []struct {
		name                         string
		internalLocal, externalLocal bool
		endpoints                    []service.Endpoint
		internal, external           portal.Target
	}{
		{"nobody", false, false, nil, reject, reject},
		{"somebody", false, false, []service.Endpoint{there}, toFront, toFront},
		{"nobody, local policies", true, true, nil, reject, reject},
		{"here, local policies", true, true, []service.Endpoint{here, there}, toFront, toFront},
		{"elsewhere, local policies", true, true, []service.Endpoint{there}, drop, inside},
		{"elsewhere, internal policy local", true, false, []service.Endpoint{there}, drop, toFront},
		{"elsewhere, external policy local", false, true, []service.Endpoint{there}, toFront, inside},
		{"terminating here, local policies", true, true, []service.Endpoint{there, leavingHere}, toFront, toFront},
		{"of another family here, local policies", true, true, []service.Endpoint{there, sixHere}, drop, inside},
	} {
		p := &service.Port{InternalLocal: c.internalLocal, ExternalLocal: c.externalLocal, Endpoints: c.endpoints}
		all := []service.Exposure{{Kind: service.ClusterIP}, {Kind: service.NodePort}, {Kind: service.ExternalIP},
			{Kind: service.LoadBalancerIP}}
		for i := range all {
			all[i].Frontend.Addr = netip.MustParseAddrPort("10.96.0.1:80")
		}
		p.Exposures = all
		usable := p.UsableEndpoints(inet.IPv4)
		leads, front := targets{port: p}, false
		for _, x := range all {
			want := c.external
			if x.Kind == service.ClusterIP {
				want = c.internal
			}
			if got := leads.target(leads.availability(usable, x.Kind), &portal.Redirect{Port: port}); got != want {
				t.Errorf("%s: %s leads to %#v, want %#v", c.name, x.Kind, got, want)
			}
			_, redirects := want.(portal.Redirect)
			front = front || redirects
		}
		if leads.wanted(usable, inet.IPv4) != front {
			t.Errorf("%s: wants a front: %t", c.name, !front)
		}
	}
}

package userspace

import (
	"net/netip"
	"testing"

	"github.com/portald/portald/portal"
	"github.com/portald/portald/proxy/service"
)

// Where the portals of each kind lead, by who serves and by traffic policy.
func TestTargets(t *testing.T) {
	const port = 11000
	led, inside := portal.Redirect{Port: port}, portal.Redirect{Port: port, Inside: true}
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
		{"somebody", false, false, []service.Endpoint{there}, led, led},
		{"nobody, local policies", true, true, nil, reject, reject},
		{"here, local policies", true, true, []service.Endpoint{here, there}, led, led},
		{"elsewhere, local policies", true, true, []service.Endpoint{there}, drop, inside},
		{"elsewhere, internal policy local", true, false, []service.Endpoint{there}, drop, led},
		{"elsewhere, external policy local", false, true, []service.Endpoint{there}, led, inside},
		{"terminating here, local policies", true, true, []service.Endpoint{there, leavingHere}, led, led},
		{"of another family here, local policies", true, true, []service.Endpoint{there, sixHere}, drop, inside},
	} {
		p := &service.Port{InternalLocal: c.internalLocal, ExternalLocal: c.externalLocal, Endpoints: c.endpoints}
		all := []service.Exposure{{Kind: service.ClusterIP}, {Kind: service.NodePort}, {Kind: service.ExternalIP},
			{Kind: service.LoadBalancerIP}}
		for i := range all {
			all[i].Frontend.Addr = netip.MustParseAddrPort("10.96.0.1:80")
		}
		p.Exposures = all
		usable := p.UsableEndpoints(service.IPv4)
		leads, front := ledTo(false, p.Name), false
		for _, x := range all {
			want := c.external
			if x.Kind == service.ClusterIP {
				want = c.internal
			}
			if got := target(p.Availability(usable, x.Kind), leads, &portal.Redirect{Port: port}); got != want {
				t.Errorf("%s: %s leads to %#v, want %#v", c.name, x.Kind, got, want)
			}
			_, redirects := want.(portal.Redirect)
			front = front || redirects
		}
		if wanted(p, usable, service.IPv4, leads) != front {
			t.Errorf("%s: wants a front: %t", c.name, !front)
		}
	}
}

package userspace

import (
	"context"
	"testing"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
)

// pickFrom picks from one scope of the IPv4 front of a service port.
func (r *rig) pickFrom(t *testing.T, name service.PortName, scope service.Scope) splice.Lease {
	t.Helper()
	f := r.fronts.get(frontKey{name, inet.IPv4})
	l, ok := picker{f.balancers[scope]}.Pick(insider, nil, &service.Policy{})
	if !ok || l.Endpoint.String() != "10.1.0.1:80" {
		t.Fatalf("picked %v, %t", l.Endpoint, ok)
	}
	return l
}

// The state of an endpoint is one for all scopes, and for a front that is opened again while a lease is open.
func TestFrontsShareEndpoints(t *testing.T) {
	r := newRig(t, inet.PortRange{First: 31150, Last: 31159})
	p := portOf("cart", "10.96.0.10:80", "10.1.0.1:80")
	p.Endpoints[0].Local, p.ExternalLocal = true, true
	expose(p, "0.0.0.0:31160", service.NodePort)
	r.sync(t, p)
	cluster, node := r.pickFrom(t, p.Name, service.ClusterScope), r.pickFrom(t, p.Name, service.NodeScope)
	if cluster.State != node.State {
		t.Error("each scope has its own state of the endpoint")
	}
	node.State.Dialled(context.Canceled, 0)
	r.sync(t, portOf("cart", "10.96.0.10:80"))
	if len(r.fronts.byKey) != 0 {
		t.Fatal("a front without endpoints is still open")
	}
	r.sync(t, p)
	again := r.pickFrom(t, p.Name, service.ClusterScope)
	if again.State != cluster.State {
		t.Error("the front that was opened anew has a new state of the endpoint")
	}
}

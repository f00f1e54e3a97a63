package splicetest

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
	"github.com/portald/portald/proxy/splice"
)

// front is a front at one address, which is its only frontend, with what it serves.
type front struct {
	*splice.Front
	at   netip.AddrPort
	ring *ring // picks in every scope
	view splice.View
}

// serving is how a front is opened. Zero fields mean: a Service "cart", TCP, the IPv4 loopback address, a ring over the
// endpoints for every scope.
type serving struct {
	name      string
	protocol  inet.Protocol
	host      string
	port      service.Port
	kind      service.Kind
	pickers   *splice.Pickers
	endpoints []netip.AddrPort
}

// open opens a front at a loopback address.
func (d *dataPath) open(protocol inet.Protocol, host string, endpoints ...netip.AddrPort) *front {
	d.t.Helper()
	return d.serve(serving{protocol: protocol, host: host, endpoints: endpoints})
}

// tcp opens a TCP front.
func (d *dataPath) tcp(endpoints ...netip.AddrPort) *front {
	d.t.Helper()
	return d.open(inet.TCP, loopback, endpoints...)
}

// udp opens a UDP front.
func (d *dataPath) udp(endpoints ...netip.AddrPort) *front {
	d.t.Helper()
	return d.open(inet.UDP, loopback, endpoints...)
}

func (d *dataPath) serve(s serving) *front {
	d.t.Helper()
	if s.host == "" {
		s.host = loopback
	}
	if s.name == "" {
		s.name = "cart"
	}
	f := &front{ring: &ring{list: s.endpoints}}
	d.rings = append(d.rings, f.ring)
	if s.pickers == nil {
		s.pickers = &splice.Pickers{service.ClusterScope: f.ring, service.NodeScope: f.ring}
	}
	name := service.PortName{Namespace: "shop", Name: s.name, Port: "http", Protocol: s.protocol}
	for {
		f.at = netip.AddrPortFrom(netip.MustParseAddr(s.host), d.t.ports.next())
		f.view = s.viewAt(f.at)
		view := f.view
		opened, err := d.Open(name, *s.pickers, &view, f.at)
		if isInUse(err) {
			continue
		}
		d.t.must(err)
		f.Front = opened
		return f
	}
}

func (s *serving) viewAt(at netip.AddrPort) splice.View {
	frontend := service.Frontend{Addr: at, Protocol: s.protocol}
	return splice.View{
		Port: &s.port, Exposures: []service.Exposure{{Frontend: frontend, Kind: s.kind}}, Endpoints: known(s.endpoints),
	}
}

// known are endpoints as a View has them.
func known(addrs []netip.AddrPort) (endpoints []service.Endpoint) {
	for _, a := range addrs {
		endpoints = append(endpoints, service.Endpoint{Addr: a, Ready: true, Serving: true, Pod: "shop/" + a.String()})
	}
	slices.SortFunc(endpoints, func(a, b service.Endpoint) int { return a.Addr.Compare(b.Addr) })
	return endpoints
}

// change retargets the front to a view that differs so.
func (f *front) change(edit func(*splice.View)) {
	edit(&f.view)
	view := f.view
	f.Retarget(&view)
}

// lead has the front pick and know these endpoints.
func (f *front) lead(to ...netip.AddrPort) {
	f.ring.set(to...)
	f.know(to...)
}

// know has the front know these endpoints, whatever is picked.
func (f *front) know(endpoints ...netip.AddrPort) {
	f.change(func(v *splice.View) { v.Endpoints = known(endpoints) })
}

// under gives the service port a policy of its own.
func (f *front) under(p service.Policy) {
	f.change(func(v *splice.View) { v.Port = &service.Port{Policy: p} })
}

// moveFrontend moves the frontend elsewhere, so that what comes to the proxy port comes from no portal.
func (f *front) moveFrontend(to string) {
	f.change(func(v *splice.View) {
		v.Exposures = slices.Clone(v.Exposures)
		v.Exposures[0].Frontend.Addr = netip.MustParseAddrPort(to)
	})
}

package translate

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/portald/portald/proxy/service"
)

// An endpoint that is a Service's own address, be it another's, is of no use: nothing that is sent to an endpoint is led to a
// Service. Pods have addresses of their own, so endpoints that are pods are not looked at.
//
// To find such endpoints whichever comes first, crossings knows whose frontends there are, and who has an endpoint that may be
// one: by its address and port, and by its port alone if that were a node port's.
type crossings struct {
	own       func(netip.Addr) bool // this node's addresses, at which node ports are served
	frontends map[service.Frontend][]service.Name
	endpoints map[service.Frontend][]service.Name // a Service once for each of its endpoints
}

func newCrossings() crossings {
	return crossings{
		own:       func(netip.Addr) bool { return false },
		frontends: map[service.Frontend][]service.Name{}, endpoints: map[service.Frontend][]service.Name{},
	}
}

// serve takes in another state of a Service, nil being none, and adds those that its frontends concern.
func (c *crossings) serve(name service.Name, was, is *trimmedService, t touched) {
	for f := range was.frontends() {
		drop(c.frontends, f, name)
		t.add(c.endpoints[f])
	}
	for f := range is.frontends() {
		c.frontends[f] = append(c.frontends[f], name)
		t.add(c.endpoints[f])
	}
}

// back takes in another state of a slice.
func (c *crossings) back(was, is *trimmedSlice) {
	for f := range reached(was) {
		drop(c.endpoints, f, was.owner)
	}
	for f := range reached(is) {
		c.endpoints[f] = append(c.endpoints[f], is.owner)
	}
}

func drop(from map[service.Frontend][]service.Name, f service.Frontend, name service.Name) {
	if i := slices.Index(from[f], name); i >= 0 {
		from[f] = slices.Delete(from[f], i, i+1)
	}
	if len(from[f]) == 0 {
		delete(from, f)
	}
}

func (t touched) add(names []service.Name) {
	for _, name := range names {
		t[name] = struct{}{}
	}
}

// frontends are those of all its ports.
func (s *trimmedService) frontends() func(func(service.Frontend) bool) {
	return func(yield func(service.Frontend) bool) {
		if s == nil {
			return
		}
		for _, p := range s.ports {
			for _, x := range p.Exposures {
				if !yield(x.Frontend) {
					return
				}
			}
		}
	}
}

// reached are the frontends that the endpoints of a slice may be, each with the endpoint.
func reached(s *trimmedSlice) func(func(service.Frontend, netip.AddrPort) bool) {
	return func(yield func(service.Frontend, netip.AddrPort) bool) {
		if s == nil {
			return
		}
		for _, p := range s.ports {
			for _, e := range s.endpoints {
				if e.pod != "" {
					continue
				}
				at := netip.AddrPortFrom(e.addr, p.number)
				if !yield(service.Frontend{Addr: at, Protocol: p.protocol}, at) {
					return
				}
				node := netip.AddrPortFrom(unspecified(e.addr), p.number)
				if !yield(service.Frontend{Addr: node, Protocol: p.protocol}, at) {
					return
				}
			}
		}
	}
}

func unspecified(of netip.Addr) netip.Addr {
	if of.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// problems are one for each slice that has such an endpoint: the first that it has.
func (c *crossings) problems(back []*trimmedSlice) (out []Problem) {
	for _, s := range back {
		var r report
		for f, at := range reached(s) {
			holders := c.frontends[f]
			if len(holders) == 0 || f.Addr.Addr().IsUnspecified() && !c.own(at.Addr()) {
				continue
			}
			holder := slices.MinFunc(holders, compareNames)
			r.on(s.id).add("endpoints", at.String(), fmt.Sprintf("is an address of the Service %s itself, and nothing that is sent to an "+
				"endpoint is led to a Service: nobody answers there; list what that Service leads to", holder))
			break
		}
		out = append(out, r.problems...)
	}
	return out
}

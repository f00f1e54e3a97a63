package translate

import (
	"fmt"
	"iter"
	"net/netip"

	"github.com/portald/portald/portal/service"
)

// conflicts finds endpoints that are frontends, of the same Service or of another. They cannot be served: what is sent
// to an endpoint bypasses all portals. Endpoints that are pods are not checked, since pods have addresses of their own.
//
// To find them whichever of the two comes first, it knows the frontends of all Services, and which Services have an
// endpoint that may be one: by its address and port, and by its port alone in case that is a node port.
type conflicts struct {
	onNode    func(netip.Addr) bool // whether this node has an address, on which node ports are served
	frontends owners
	endpoints owners // a Service once for each of its endpoints
}

func newConflicts() conflicts {
	return conflicts{
		onNode:    func(netip.Addr) bool { return false },
		frontends: owners{}, endpoints: owners{},
	}
}

// setService replaces a state of a Service by the next, nil being none, and adds the Services that have an endpoint at
// one of its frontends.
func (c *conflicts) setService(name service.Name, before, next *trimmedService, changed names) {
	for f := range before.frontends() {
		c.frontends.remove(f, name)
		changed.addAll(c.endpoints.of(f))
	}
	for f := range next.frontends() {
		c.frontends.add(f, name)
		changed.addAll(c.endpoints.of(f))
	}
}

// setSlice replaces a state of a slice by the next, nil being none.
func (c *conflicts) setSlice(before, next *trimmedSlice) {
	for f := range before.possibleFrontends() {
		c.endpoints.remove(f, before.owner)
	}
	for f := range next.possibleFrontends() {
		c.endpoints.add(f, next.owner)
	}
}

// frontends returns the frontends of all ports of a Service.
func (s *trimmedService) frontends() iter.Seq[service.Frontend] {
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

// mostPossible is how many endpoints of a slice are looked through for frontends, each with each port: a slice may have
// a thousand with twenty thousand ports. A conflict that is not found here fails when it is dialled.
const mostPossible = 1 << 14

// possibleFrontends are the frontends that endpoints of a slice may be, each with the endpoint.
func (s *trimmedSlice) possibleFrontends() iter.Seq2[service.Frontend, netip.AddrPort] {
	return func(yield func(service.Frontend, netip.AddrPort) bool) {
		if s == nil {
			return
		}
		left := mostPossible
		for _, p := range s.ports {
			for _, e := range s.endpoints {
				if e.pod != "" {
					continue
				}
				if left--; left < 0 {
					return
				}
				at := netip.AddrPortFrom(e.addr, p.number)
				for _, addr := range []netip.Addr{e.addr, unspecified(e.addr)} { // the second: a node port
					f := service.Frontend{Addr: netip.AddrPortFrom(addr, p.number), Protocol: p.protocol}
					if !yield(f, at) {
						return
					}
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

// problems are at most one for each slice: its first endpoint that is a frontend. Of a Service with very many endpoints
// not all are looked at.
func (c *conflicts) problems(back []*trimmedSlice) (out []Problem) {
	left := mostEndpoints
	for _, s := range back {
		r := (&report{}).on(s.id)
		for f, endpoint := range s.possibleFrontends() {
			if left--; left < 0 {
				return out
			}
			owner, found := c.frontends.first(f)
			if !found || f.Addr.Addr().IsUnspecified() && !c.onNode(endpoint.Addr()) {
				continue
			}
			r.add("endpoints", endpoint.String(), fmt.Sprintf("is an address of the Service %s itself: connections "+
				"to an endpoint are not redirected to a Service, so they would fail; list that Service's endpoints instead",
				owner))
			break
		}
		out = append(out, r.all()...)
	}
	return out
}

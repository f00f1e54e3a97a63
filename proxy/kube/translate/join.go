package translate

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// mostEndpoints is how many endpoints a Service may have, each counted with each port: a tenant may write a Service and
// a slice that have thousands of ports and a thousand endpoints.
const mostEndpoints = 1 << 16

// join returns the ports of a Service with the endpoints of its slices, which are ordered by name, and the problems of
// all.
func join(svc *trimmedService, back []*trimmedSlice, zone string) (ports []*service.Port, problems []Problem) {
	if !svc.served {
		return nil, nil
	}
	r := (&report{}).on(svc.id)
	all, left, without := backsOf(back), mostEndpoints, 0
	for _, p := range svc.ports {
		whole := *p
		of := all[backName{p.Name.Port, p.Name.Protocol}]
		if left -= count(of); left >= 0 {
			whole.Endpoints = endpointsOf(of, zone)
		} else {
			without++
		}
		ports = append(ports, &whole)
	}
	if without > 0 {
		r.add("spec.ports", len(svc.ports), fmt.Sprintf("ports have more than %d endpoints, each counted with each port: "+
			"%d ports are served without any; make more Services of it", mostEndpoints, without))
	}
	problems = append(r.all(), svc.problems...)
	for _, s := range back {
		if len(problems) < mostOfService {
			problems = append(problems, s.problems...)
		}
	}
	return ports, problems
}

// backName is by what a port of a slice belongs to one of the Service: target ports, named ones too, are already
// resolved in slices.
type backName struct {
	port     string
	protocol inet.Protocol
}

// back is a port of a slice, with its endpoints.
type back struct {
	slice *trimmedSlice
	port  uint16
}

// backsOf finds what is behind each port, in the order of the slices.
func backsOf(slices []*trimmedSlice) map[backName][]back {
	all := make(map[backName][]back, 1)
	for _, s := range slices {
		for _, p := range s.ports {
			name := backName{p.name, p.protocol}
			all[name] = append(all[name], back{s, p.number})
		}
	}
	return all
}

// count is how many endpoints these are, of which some may be the same.
func count(all []back) (n int) {
	for _, b := range all {
		n += len(b.slice.endpoints)
	}
	return n
}

// candidate is an endpoint of a service port, with the topology hints of its slice.
type candidate struct {
	service.Endpoint
	hints hints
}

// endpointsOf returns the endpoints of one service port, ordered by address.
func endpointsOf(of []back, zone string) []service.Endpoint {
	all := candidates(of)
	if len(all) == 0 {
		return nil
	}
	applyHints(all, zone)
	out := make([]service.Endpoint, len(all))
	for i := range all {
		out[i] = all[i].Endpoint
	}
	return out
}

// candidates are the endpoints behind one service port, ordered by address.
func candidates(of []back) []candidate {
	out := make([]candidate, 0, count(of))
	for _, b := range of {
		for i := range b.slice.endpoints {
			out = append(out, b.slice.endpoints[i].at(b.port))
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int { return a.Addr.Compare(b.Addr) })
	return mergeDuplicates(out)
}

// at returns the endpoint with one of its ports.
func (e *sliceEndpoint) at(port uint16) candidate {
	t := e.traits.Value()
	return candidate{service.Endpoint{
		Addr:        netip.AddrPortFrom(e.addr, port),
		Local:       t.local,
		Ready:       t.ready,
		Serving:     t.serving,
		Terminating: t.terminating,
		Zone:        t.zone,
		Node:        t.node,
		Pod:         e.pod,
	}, t.hints}
}

// mergeDuplicates keeps one of the candidates with the same address: an endpoint that moves between slices is in both
// for a while, and of a pod that is gone, whose address another pod has by now, something may be left. It keeps all of
// that one: a state put together out of two, such as the node of the one that is gone and the readiness of the other,
// is nobody's.
func mergeDuplicates(sorted []candidate) []candidate {
	out := sorted[:0]
	for _, c := range sorted {
		last := len(out) - 1
		switch {
		case last < 0 || out[last].Addr != c.Addr:
			out = append(out, c)
		case c.livelier(&out[last]):
			out[last] = c
		}
	}
	return out
}

// livelier tells whether c rather than other, which was found first, is who has the address: one that does not
// terminate, as kube-proxy decides, then one that is ready, one that serves, one of this node.
func (c *candidate) livelier(other *candidate) bool {
	for _, differ := range [][2]bool{
		{!c.Terminating, !other.Terminating}, {c.Ready, other.Ready}, {c.Serving, other.Serving}, {c.Local, other.Local},
	} {
		if differ[0] != differ[1] {
			return differ[0]
		}
	}
	return false
}

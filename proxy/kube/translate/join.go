package translate

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/proxy/service"
)

// join returns the ports of a Service with the endpoints of its slices, which are ordered by name, and the problems of
// all.
func join(svc *trimmedService, back []*trimmedSlice, zone string) (ports []*service.Port, problems []Problem) {
	if !svc.served {
		return nil, nil
	}
	for _, p := range svc.ports {
		whole := *p
		whole.Endpoints = endpointsOf(p.Name, back, zone)
		ports = append(ports, &whole)
	}
	problems = svc.problems[:len(svc.problems):len(svc.problems)]
	for _, s := range back {
		problems = append(problems, s.problems...)
	}
	return ports, problems
}

// candidate is an endpoint of a service port, with the topology hints of its slice.
type candidate struct {
	service.Endpoint
	hints hints
}

// endpointsOf returns the endpoints of one service port, ordered by address, from slices ordered by name.
func endpointsOf(name service.PortName, back []*trimmedSlice, zone string) []service.Endpoint {
	all := candidates(name, back)
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

// candidates are the endpoints in slices. The name and protocol of a slice's port select the service port: target
// ports, named ones too, are already resolved in slices.
func candidates(name service.PortName, back []*trimmedSlice) []candidate {
	var out []candidate
	for _, s := range back {
		for _, p := range s.ports {
			if p.name != name.Port || p.protocol != name.Protocol {
				continue
			}
			out = slices.Grow(out, len(s.endpoints))
			for _, e := range s.endpoints {
				out = append(out, e.at(p.number))
			}
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

// mergeDuplicates merges candidates with the same address: an endpoint that moves between slices is in both for a
// while.
func mergeDuplicates(sorted []candidate) []candidate {
	out := sorted[:0]
	for _, c := range sorted {
		if last := len(out) - 1; last >= 0 && out[last].Addr == c.Addr {
			out[last] = merge(out[last], c)
		} else {
			out = append(out, c)
		}
	}
	return out
}

// merge joins two candidates with the same address: ready if either is, local if either is. Names and hints come from
// the one that is ready, else from the one that is local, else from a.
func merge(a, b candidate) candidate {
	out := a
	if b.Ready && !a.Ready || b.Ready == a.Ready && b.Local && !a.Local {
		out = b
	}
	out.Local = a.Local || b.Local
	out.Ready = a.Ready || b.Ready
	out.Serving = a.Serving || b.Serving
	out.Terminating = a.Terminating && b.Terminating
	return out
}

package translate

import (
	"net/netip"
	"slices"

	"github.com/portald/portald/proxy/service"
)

// candidate is an endpoint of a service port, with the hints that decide whether clients of this node may use it.
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
	markNotHinted(all, zone)
	out := make([]service.Endpoint, len(all))
	for i := range all {
		out[i] = all[i].Endpoint
	}
	return out
}

// candidates are the endpoints as the slices say. A slice belongs to a service port by the name and protocol of its
// port: target ports, named ones too, are already resolved in it.
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

// at is the endpoint on one of its ports.
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

// mergeDuplicates makes one of neighbours with one address, as they come while an endpoint moves between slices.
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

// merge takes the best that either says: ready before not ready, local before remote. Names and hints come from the
// ready one, else from the local one, else from a.
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

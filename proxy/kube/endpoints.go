package kube

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/portald/portald/proxy/service"
)

// backing is what the slices of one Service hold, addresses read once for all its ports.
type backing []backingSlice

type backingSlice struct {
	ports     []backingPort
	endpoints []service.Endpoint // their Addr has port 0
}

type backingPort struct {
	name     string
	protocol service.Protocol
	number   uint16
}

// endpointsOf reads the slices in the order of their names. Slices of host names and headless ones have no endpoints.
func endpointsOf(endpointSlices []*discoveryv1.EndpointSlice, opts TranslateOptions, r *report) backing {
	ordered := slices.Clone(endpointSlices)
	slices.SortFunc(ordered, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	out := make(backing, 0, len(ordered))
	for _, s := range ordered {
		if _, headless := s.Labels[labelHeadless]; headless || s.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		on := r.on(fmt.Sprintf("endpointslice %s/%s", s.Namespace, s.Name))
		if s.AddressType != discoveryv1.AddressTypeIPv4 && s.AddressType != discoveryv1.AddressTypeIPv6 {
			on.add("addressType", string(s.AddressType), "must be IPv4 or IPv6; the slice is not used")
			continue
		}
		out = append(out, backingSlice{ports: slicePorts(s, on), endpoints: sliceEndpoints(s, opts, on)})
	}
	return out
}

// of returns the endpoints of one service port, ordered by address. A slice belongs to it by the name and protocol of
// its port: target ports, named ones too, are already resolved in it.
func (b backing) of(name service.PortName) []service.Endpoint {
	var out []service.Endpoint
	for _, s := range b {
		for _, p := range s.ports {
			if p.name != name.Port || p.protocol != name.Protocol {
				continue
			}
			for _, e := range s.endpoints {
				e.Addr = netip.AddrPortFrom(e.Addr.Addr(), p.number)
				out = append(out, e)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b service.Endpoint) int { return a.Addr.Compare(b.Addr) })
	return mergeDuplicates(out)
}

// mergeDuplicates makes one of neighbours with one address, as they come while an endpoint moves between slices.
func mergeDuplicates(sorted []service.Endpoint) []service.Endpoint {
	out := sorted[:0]
	for _, e := range sorted {
		if last := len(out) - 1; last >= 0 && out[last].Addr == e.Addr {
			out[last] = merge(out[last], e)
		} else {
			out = append(out, e)
		}
	}
	return out
}

// merge takes the best that either says: ready before not ready, local before remote. The names come from the ready
// one, else from the local one, else from a.
func merge(a, b service.Endpoint) service.Endpoint {
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

// slicePorts returns the ports of a slice. A port without number means "all ports" to others, and nothing to a proxy.
func slicePorts(s *discoveryv1.EndpointSlice, on objectReport) []backingPort {
	var out []backingPort
	for i, p := range s.Ports {
		if p.Port == nil || *p.Port == 0 {
			continue
		}
		field := fmt.Sprintf("ports[%d]", i)
		if !isPort(*p.Port) {
			on.add(field+".port", *p.Port, "must be 1 to 65535")
			continue
		}
		protocol, advice := protocolOf(valueOr(p.Protocol, corev1.ProtocolTCP))
		if protocol == 0 {
			on.add(field+".protocol", string(*p.Protocol), advice)
			continue
		}
		// A missing name is the empty one, as the API server fills it in.
		port := backingPort{name: valueOr(p.Name, ""), protocol: protocol, number: uint16(*p.Port)}
		if !slices.Contains(out, port) {
			out = append(out, port)
		}
	}
	return out
}

func sliceEndpoints(s *discoveryv1.EndpointSlice, opts TranslateOptions, on objectReport) []service.Endpoint {
	out := make([]service.Endpoint, 0, len(s.Endpoints))
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if len(e.Addresses) == 0 {
			on.add(fmt.Sprintf("endpoints[%d].addresses", i), "", "is empty; write one address")
			continue
		}
		// All addresses of an endpoint are the same place; consumers use the first, says the API.
		addr, advice := endpointAddr(e.Addresses[0], s.AddressType)
		if advice != "" {
			on.add(fmt.Sprintf("endpoints[%d].addresses[0]", i), e.Addresses[0], advice)
			continue
		}
		if opts.carries(addr) {
			out = append(out, endpoint(s, e, addr, opts.NodeName))
		}
	}
	return out
}

// endpointAddr reads an address of a slice of that type. The second result is as in parseAddr.
func endpointAddr(text string, kind discoveryv1.AddressType) (netip.Addr, string) {
	addr, advice := parseAddr(text)
	if advice == "" && addr.Is4() != (kind == discoveryv1.AddressTypeIPv4) {
		if written, _ := netip.ParseAddr(text); !written.Is4In6() {
			advice = fmt.Sprintf("is not of the slice's addressType %s; put it into a slice of its family", kind)
		}
	}
	return addr, advice
}

// endpoint fills in what a condition that is not given means: ready and serving true, terminating false.
func endpoint(
	s *discoveryv1.EndpointSlice, e *discoveryv1.Endpoint, addr netip.Addr, nodeName string,
) service.Endpoint {
	out := service.Endpoint{
		Addr:        netip.AddrPortFrom(addr, 0),
		Ready:       valueOr(e.Conditions.Ready, true),
		Serving:     valueOr(e.Conditions.Serving, true),
		Terminating: valueOr(e.Conditions.Terminating, false),
		Zone:        valueOr(e.Zone, ""),
		Node:        valueOr(e.NodeName, ""),
	}
	out.Local = nodeName != "" && out.Node == nodeName
	if ref := e.TargetRef; ref != nil && ref.Kind == "Pod" && ref.Name != "" {
		out.Pod = cmp.Or(ref.Namespace, s.Namespace) + "/" + ref.Name
	}
	return out
}

// valueOr is what p points to, or fallback when it is nil.
func valueOr[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}

package translate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/portald/portald/proxy/service"
)

// slicePort is a port that all endpoints of a slice have.
type slicePort struct {
	name     string
	protocol service.Protocol
	number   uint16
}

// sliceEndpoint is an endpoint of a slice. There may be millions, so it is small.
type sliceEndpoint struct {
	addr   netip.Addr
	pod    string // "namespace/name"
	traits unique.Handle[traits]
}

// traits are what many endpoints have in common. Equal traits are stored once.
type traits struct {
	ready, serving, terminating bool
	local                       bool
	node, zone                  string
	hints                       hints
}

// slicePorts returns the ports of a slice. A port without a number means "all ports", which a service proxy ignores.
func slicePorts(s *discoveryv1.EndpointSlice, on objectReport) []slicePort {
	var out []slicePort
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
		port := slicePort{name: valueOr(p.Name, ""), protocol: protocol, number: uint16(*p.Port)}
		if !slices.Contains(out, port) {
			out = append(out, port)
		}
	}
	return out
}

func sliceEndpoints(s *discoveryv1.EndpointSlice, opts Options, on objectReport) []sliceEndpoint {
	out := make([]sliceEndpoint, 0, len(s.Endpoints))
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if len(e.Addresses) == 0 {
			on.add(fmt.Sprintf("endpoints[%d].addresses", i), "", "is empty; write one address")
			continue
		}
		// All addresses of an endpoint are the same endpoint; the API asks consumers to use the first.
		addr, advice := endpointAddr(e.Addresses[0], s.AddressType)
		if advice != "" {
			on.add(fmt.Sprintf("endpoints[%d].addresses[0]", i), e.Addresses[0], advice)
			continue
		}
		if opts.supports(addr) {
			out = append(out, sliceEndpoint{addr, podOf(e.TargetRef, s.Namespace), unique.Make(traitsOf(e, opts.NodeName))})
		}
	}
	return out
}

// endpointAddr parses an address of a slice of that type. Advice is as in parseAddr.
func endpointAddr(text string, kind discoveryv1.AddressType) (addr netip.Addr, advice string) {
	addr, advice = parseAddr(text)
	if advice == "" && addr.Is4() != (kind == discoveryv1.AddressTypeIPv4) {
		if !strings.Contains(text, ":") || addr.Is6() { // else it is an IPv4 address, written as one of IPv6
			advice = fmt.Sprintf("is not of the slice's addressType %s; write it in a slice of its own family", kind)
		}
	}
	return addr, advice
}

// traitsOf returns the traits of an endpoint. Conditions that are not set mean ready, serving and not terminating.
func traitsOf(e *discoveryv1.Endpoint, nodeName string) traits {
	node := valueOr(e.NodeName, "")
	return traits{
		ready:       valueOr(e.Conditions.Ready, true),
		serving:     valueOr(e.Conditions.Serving, true),
		terminating: valueOr(e.Conditions.Terminating, false),
		local:       nodeName != "" && node == nodeName,
		node:        node,
		zone:        valueOr(e.Zone, ""),
		hints:       hintsOf(e.Hints, nodeName),
	}
}

// podOf is the pod of an endpoint, as "namespace/name"; empty when it is not a pod.
func podOf(ref *corev1.ObjectReference, namespace string) string {
	if ref == nil || ref.Kind != "Pod" || ref.Name == "" {
		return ""
	}
	return cmp.Or(ref.Namespace, namespace) + "/" + ref.Name
}

// valueOr is what p points to, or fallback when it is nil.
func valueOr[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}

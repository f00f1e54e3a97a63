package translate

import (
	"fmt"
	"net/netip"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/portald/portald/platform/inet"
)

// slicePort is a port that all endpoints of a slice have.
type slicePort struct {
	name     string
	protocol inet.Protocol
	number   uint16
}

// sliceEndpoint is an endpoint of a slice. There may be millions, so it is small.
type sliceEndpoint struct {
	addr   netip.Addr
	pod    string // "namespace/name"
	traits unique.Handle[traits]
}

// traits are the properties that many endpoints have in common. Equal traits are stored once.
type traits struct {
	ready, serving, terminating bool
	local                       bool
	node, zone                  string
	hints                       hints
}

// slicePorts returns the ports of a slice. A port without a number means "all ports", which a service proxy ignores.
func slicePorts(s *discoveryv1.EndpointSlice, on objectReport) []slicePort {
	out, seen := make([]slicePort, 0, len(s.Ports)), make(map[slicePort]struct{}, len(s.Ports)) // 20,000 at the most
	for i, p := range s.Ports {
		if p.Port == nil || *p.Port == 0 {
			continue
		}
		if !isPort(*p.Port) {
			on.add(portField(i, "port"), *p.Port, "must be 1 to 65535")
			continue
		}
		protocol, advice := protocolOf(valueOr(p.Protocol, corev1.ProtocolTCP))
		if protocol == 0 {
			on.add(portField(i, "protocol"), string(*p.Protocol), advice)
			continue
		}
		// A missing name is the empty one, as the API server fills it in.
		port := slicePort{name: valueOr(p.Name, ""), protocol: protocol, number: uint16(*p.Port)}
		if !portName.fits(port.name) {
			on.add(portField(i, "name"), port.name, portName.refuse("and no Service has a port of that name"))
			continue
		}
		if _, has := seen[port]; !has {
			seen[port] = struct{}{}
			out = append(out, port)
		}
	}
	return out
}

func portField(i int, name string) string { return fmt.Sprintf("ports[%d].%s", i, name) }

func endpointField(i int, name string) string { return fmt.Sprintf("endpoints[%d].%s", i, name) }

func sliceEndpoints(s *discoveryv1.EndpointSlice, opts Options, on objectReport) []sliceEndpoint {
	out := make([]sliceEndpoint, 0, len(s.Endpoints))
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if len(e.Addresses) == 0 {
			on.add(endpointField(i, "addresses"), "", "is empty; write one address")
			continue
		}
		// All addresses of an endpoint are the same endpoint; the API asks consumers to use the first.
		addr, advice := endpointAddr(e.Addresses[0], s.AddressType)
		if advice != "" {
			on.add(endpointField(i, "addresses[0]"), e.Addresses[0], advice)
			continue
		}
		if opts.supports(addr) {
			on := endpointReport{on, i}
			out = append(out, sliceEndpoint{addr, podOf(e.TargetRef, s.Namespace, on),
				unique.Make(traitsOf(e, opts.NodeName, on))})
		}
	}
	return out
}

// endpointAddr parses an address of a slice of that type. Advice is as in parseAddr.
func endpointAddr(text string, kind discoveryv1.AddressType) (addr netip.Addr, advice string) {
	addr, advice = parseAddr(text)
	if advice != "" && addr.IsValid() {
		advice = refusedEndpoint(addr)
	}
	if advice == "" && addr.Is4() != (kind == discoveryv1.AddressTypeIPv4) {
		if !strings.Contains(text, ":") || addr.Is6() { // else it is an IPv4 address, written as one of IPv6
			advice = fmt.Sprintf("is not of the slice's addressType %s; write it in a slice of its own family", kind)
		}
	}
	return addr, advice
}

// endpointReport is the report on a slice, about one endpoint.
type endpointReport struct {
	on objectReport
	i  int
}

// text returns a text of that form, and reports any other: then nothing is in its place.
func (r endpointReport) text(field, text string, f *form, then string) string {
	if f.fits(text) {
		return text
	}
	r.on.add(endpointField(r.i, field), text, f.refuse(then))
	return ""
}

// traitsOf returns the traits of an endpoint. Conditions that are not set mean ready, serving and not terminating.
func traitsOf(e *discoveryv1.Endpoint, nodeName string, on endpointReport) traits {
	node := valueOr(e.NodeName, "")
	return traits{
		ready:       valueOr(e.Conditions.Ready, true),
		serving:     valueOr(e.Conditions.Serving, true),
		terminating: valueOr(e.Conditions.Terminating, false),
		local:       nodeName != "" && node == nodeName,
		node:        on.text("nodeName", node, &objectName, "and records do not have it"),
		zone:        on.text("zone", valueOr(e.Zone, ""), &zoneName, "and records do not have it"),
		hints:       hintsOf(e.Hints, nodeName, on),
	}
}

// podOf is the pod of an endpoint, as "namespace/name"; empty when it is not a pod. Who writes a slice is the tenant of
// one namespace: pods of others are not theirs to name.
func podOf(ref *corev1.ObjectReference, namespace string, on endpointReport) string {
	const then = "and records name no pod"
	if ref == nil || ref.Kind != "Pod" || ref.Name == "" {
		return ""
	}
	if ref.Namespace != "" && ref.Namespace != namespace {
		on.on.add(endpointField(on.i, "targetRef.namespace"), ref.Namespace, "is not the namespace of the slice, "+then+
			"; write "+namespace)
		return ""
	}
	name := on.text("targetRef.name", ref.Name, &objectName, then)
	if name == "" {
		return ""
	}
	return namespace + "/" + name
}

// valueOr returns the value at p, or fallback when p is nil.
func valueOr[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}

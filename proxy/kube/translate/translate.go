// Package translate turns Kubernetes objects into service ports: Trim keeps of an object what a translation needs, and a
// Cache joins what it has of each Service and translates only the Service that a change concerns. It is the only package
// below the sources (watch, manifests) that knows Kubernetes' types. It neither reads nor writes anything outside the
// process, and does not know how traffic is carried.
package translate

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/proxy/service"
)

// Labels that say whose a Service is, as kube-proxy reads them.
const (
	LabelProxyName = "service.kubernetes.io/service-proxy-name"
	LabelHeadless  = corev1.IsHeadlessService
)

// Options is what a translation depends on beside the objects.
type Options struct {
	// NodeName is this node: its endpoints are Local, and node hints may name it. Empty: none is.
	NodeName string
	// Zone is this node's, which zone hints may name; empty: they say nothing. A Cache has it from the Node object.
	Zone string
	// ServiceProxyName selects the Services whose label service.kubernetes.io/service-proxy-name has this value; empty
	// selects those without the label.
	ServiceProxyName string
	// ExternalIPs are the addresses that spec.externalIPs may claim; empty: none, external IPs are off.
	ExternalIPs []netip.Prefix
	// NoIPv4 and NoIPv6 leave out a family that this host cannot carry. What a Service has in it is passed over silently.
	NoIPv4, NoIPv6 bool
}

func (o Options) carries(addr netip.Addr) bool {
	return addr.Is4() && !o.NoIPv4 || addr.Is6() && !o.NoIPv6
}

// join gives the ports of a Service the endpoints of its slices, which are ordered by name.
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

// Package kube turns Kubernetes objects into service ports: a pure Translate, a Cache that keeps of the objects what a
// translation needs and re-translates only the Service a change touches, and two sources that feed it: Watch, which
// follows an API server, and Manifests, which follows files. A Recorder writes events. It is the only package that
// knows Kubernetes' types, and it does not know how traffic is carried.
package kube

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/portald/portald/proxy/service"
)

// Labels that say whose a Service is, as kube-proxy reads them.
const (
	labelProxyName = "service.kubernetes.io/service-proxy-name"
	labelHeadless  = corev1.IsHeadlessService
)

// TranslateOptions is what a translation depends on beside the objects.
type TranslateOptions struct {
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
	// ConnectTimeouts are the daemon's, for Services that say how often to retry and not how long. Empty: 1 s each.
	ConnectTimeouts []time.Duration
}

func (o TranslateOptions) carries(addr netip.Addr) bool {
	return addr.Is4() && !o.NoIPv4 || addr.Is6() && !o.NoIPv6
}

// Translate returns the service ports of one Service with the endpoints of its slices, ordered by name, and what is
// wrong in the objects. It depends on its arguments alone and changes none of them. A bad field costs only what hangs on
// it. Headless, ExternalName and other proxies' Services have no ports, and no problems.
func Translate(
	svc *corev1.Service, endpointSlices []*discoveryv1.EndpointSlice, opts TranslateOptions,
) (ports []*service.Port, problems []Problem) {
	back := make([]*trimmedSlice, len(endpointSlices))
	for i, s := range endpointSlices {
		back[i] = trimSlice(s, opts)
	}
	slices.SortStableFunc(back, compareSlices)
	return join(trimService(svc, opts), back, opts.Zone)
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

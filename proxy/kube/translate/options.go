// Package translate turns Kubernetes objects into service ports: Trim keeps of an object what a translation needs, and
// a Cache stores that and translates only the Service that a change concerns. It does no I/O, and does not know where
// objects come from (packages watch and manifests) nor how traffic is carried.
package translate

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/portal/service"
)

// Labels that exclude Services and slices, as kube-proxy reads them.
const (
	LabelProxyName = "service.kubernetes.io/service-proxy-name"
	LabelHeadless  = corev1.IsHeadlessService
)

// Options are the inputs of a translation beside the objects.
type Options struct {
	// NodeName is this node: its endpoints are Local, and node hints may name it. Empty: none is.
	NodeName string
	// Zone is this node's zone, which zone hints may name; empty: zone hints are ignored. A Cache takes it from the
	// Node object.
	Zone string
	// ServiceProxyName selects the Services whose label service.kubernetes.io/service-proxy-name has this value; empty
	// selects those without the label.
	ServiceProxyName string
	// ExternalIPs are the addresses that spec.externalIPs may claim; empty: none, external IPs are off.
	ExternalIPs []netip.Prefix
	// NoIPv4 and NoIPv6 exclude a family that this host does not support. Its addresses are ignored without a problem.
	NoIPv4, NoIPv6 bool
	// NoRules is a host whose kernel carries no Service and leads no replies back by rules, such as Windows. Annotations
	// that ask for that are reported and have no effect.
	NoRules bool
	// Mode is the mode of Services that set none.
	Mode service.Mode
	// ClientAddress is what Services have that set none, until Cache.SetClientAddress.
	ClientAddress service.ClientAddress
	// KernelAlgorithm tells whether the kernel carries Services with an algorithm; nil: it has all of them. A Service in
	// kernel mode that asks for another one is reported, and has what the daemon has.
	KernelAlgorithm func(service.Algorithm) bool
	// RefusedAnnotations are names of service.Settings that Services may not set, or service.AllSettings. One that does is
	// reported, and has what the daemon has.
	RefusedAnnotations []string
	// ServiceCIDRs has ServiceCIDRs watched: Cache.WatchServiceCIDRs tells of them.
	ServiceCIDRs bool
	// ClientPods has pods read too: Cache.Workload tells which pod is a client.
	ClientPods bool
}

// refuses tells whether a setting may not be set. One that may not choose its mode may not be debugged: that is a mode.
func (o Options) refuses(annotation string) bool {
	if annotation == service.DebugUntil && o.refuses("mode") {
		return true
	}
	return slices.Contains(o.RefusedAnnotations, annotation) || slices.Contains(o.RefusedAnnotations, service.AllSettings)
}

func (o Options) supports(addr netip.Addr) bool {
	return addr.Is4() && !o.NoIPv4 || addr.Is6() && !o.NoIPv6
}

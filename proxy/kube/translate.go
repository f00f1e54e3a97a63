// Package kube turns Kubernetes objects into service ports: a pure Translate, a Cache that keeps the objects and
// re-translates only the Service a change touches, and Manifests, which follows files. It is the only package that knows
// Kubernetes' types, and it does not know how traffic is carried.
package kube

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portald/portald/proxy/service"
)

// Labels that say whose a Service is, as kube-proxy reads them.
const (
	labelProxyName = "service.kubernetes.io/service-proxy-name"
	labelHeadless  = corev1.IsHeadlessService
)

// TranslateOptions is what a translation depends on beside the objects.
type TranslateOptions struct {
	// NodeName is this node: its endpoints are Local. Empty: none is.
	NodeName string
	// ServiceProxyName selects the Services whose label service.kubernetes.io/service-proxy-name has this value; empty
	// selects those without the label.
	ServiceProxyName string
	// ExternalIPs are the addresses that spec.externalIPs may claim; empty: none, external IPs are off.
	ExternalIPs []netip.Prefix
	// NoIPv4 and NoIPv6 leave out a family that this host cannot carry. What a Service has in it is passed over silently.
	NoIPv4, NoIPv6 bool
}

func (o TranslateOptions) carries(addr netip.Addr) bool {
	return addr.Is4() && !o.NoIPv4 || addr.Is6() && !o.NoIPv6
}

// Translate returns the service ports of one Service with the endpoints of its slices, ordered by name, and what is
// wrong in the objects, each a Problem. It depends on its arguments alone and changes none of them. A bad field costs
// only what hangs on it. Headless, ExternalName and other proxies' Services have no ports, and no problems.
func Translate(
	svc *corev1.Service, endpointSlices []*discoveryv1.EndpointSlice, opts TranslateOptions,
) (ports []*service.Port, problems []error) {
	if !served(svc, opts) {
		return nil, nil
	}
	var r report
	on := r.on(fmt.Sprintf("service %s/%s", svc.Namespace, svc.Name))
	fronts := frontendsOf(svc, opts, on)
	affinity := affinityOf(svc, on)
	backing := endpointsOf(endpointSlices, opts, &r)
	for _, sp := range servicePorts(svc, on) {
		exposures := fronts.of(sp)
		if len(exposures) == 0 {
			continue
		}
		ports = append(ports, &service.Port{
			Name:         sp.name,
			Created:      svc.CreationTimestamp.Time,
			Exposures:    exposures,
			Endpoints:    backing.of(sp.name),
			Affinity:     affinity,
			SourceRanges: fronts.sourceRanges,
		})
	}
	if len(ports) == 0 && svc.Spec.ClusterIP == "" && len(svc.Spec.ClusterIPs) == 0 {
		on.add("spec.clusterIP", "", "is missing and nothing else leads here; write the address that clients dial")
	}
	slices.SortFunc(ports, func(a, b *service.Port) int { return a.Name.Compare(b.Name) })
	return ports, r.problems
}

// served tells whether this proxy has to do with the Service at all.
func served(svc *corev1.Service, opts TranslateOptions) bool {
	if svc.Spec.Type == corev1.ServiceTypeExternalName || svc.Labels[labelProxyName] != opts.ServiceProxyName {
		return false
	}
	if _, headless := svc.Labels[labelHeadless]; headless {
		return false
	}
	return svc.Spec.ClusterIP != corev1.ClusterIPNone && !slices.Contains(svc.Spec.ClusterIPs, corev1.ClusterIPNone)
}

// servicePort is a port of a Service that can be served.
type servicePort struct {
	name     service.PortName
	number   uint16
	nodePort uint16 // 0 = none
}

// servicePorts returns the ports that can be served. Names are unique, and so are number and protocol.
func servicePorts(svc *corev1.Service, on objectReport) []servicePort {
	out := make([]servicePort, 0, len(svc.Spec.Ports))
	for i, p := range svc.Spec.Ports {
		field := fmt.Sprintf("spec.ports[%d]", i)
		protocol, advice := protocolOf(p.Protocol)
		switch {
		case advice != "":
			on.add(field+".protocol", string(p.Protocol), advice)
			continue
		case !isPort(p.Port):
			on.add(field+".port", p.Port, "must be 1 to 65535")
			continue
		case p.Name != "" && len(validation.IsDNS1123Label(p.Name)) > 0:
			on.add(field+".name", p.Name, "is no port name; use lower-case letters, digits and dashes, at most 63")
			continue
		case p.Name == "" && len(svc.Spec.Ports) > 1:
			on.add(field+".name", p.Name, "is needed where a Service has several ports; give each port a name")
			continue
		}
		sp := servicePort{
			name:   service.PortName{Namespace: svc.Namespace, Name: svc.Name, Port: p.Name, Protocol: protocol},
			number: uint16(p.Port),
		}
		if taken := slices.IndexFunc(out, sp.collides); taken >= 0 {
			on.add(field, p.Name, fmt.Sprintf("has the name, or the number and protocol, of port %q; the first is served",
				out[taken].name.Port))
			continue
		}
		sp.nodePort = nodePortOf(svc, p.NodePort, field, on)
		out = append(out, sp)
	}
	return out
}

// collides tells whether both ports cannot be in one Service.
func (p servicePort) collides(o servicePort) bool {
	return p.name.Port == o.name.Port || p.number == o.number && p.name.Protocol == o.name.Protocol
}

func nodePortOf(svc *corev1.Service, port int32, field string, on objectReport) uint16 {
	if port == 0 {
		return 0
	}
	if t := svc.Spec.Type; t != corev1.ServiceTypeNodePort && t != corev1.ServiceTypeLoadBalancer {
		on.add(field+".nodePort", port, "needs spec.type NodePort or LoadBalancer; set it, or remove the node port")
		return 0
	}
	if !isPort(port) {
		on.add(field+".nodePort", port, "must be 1 to 65535")
		return 0
	}
	return uint16(port)
}

func isPort(n int32) bool { return n >= 1 && n <= 65535 }

// protocolOf reads a protocol; an empty one is TCP, as the API server has it. The second result is as in parseAddr.
func protocolOf(p corev1.Protocol) (service.Protocol, string) {
	switch p {
	case corev1.ProtocolTCP, "":
		return service.TCP, ""
	case corev1.ProtocolUDP:
		return service.UDP, ""
	case corev1.ProtocolSCTP:
		return service.SCTP, "cannot be carried in userspace mode; this port is not served, use TCP or UDP"
	}
	return 0, "is no protocol of a Service; write TCP or UDP"
}

// affinityOf is how long a client stays bound to its endpoint, 0 without affinity. The bounds are the API server's.
func affinityOf(svc *corev1.Service, on objectReport) time.Duration {
	const fallback = time.Duration(corev1.DefaultClientIPServiceAffinitySeconds) * time.Second
	switch svc.Spec.SessionAffinity {
	case corev1.ServiceAffinityClientIP:
	case corev1.ServiceAffinityNone, "":
		return 0
	default:
		on.add("spec.sessionAffinity", string(svc.Spec.SessionAffinity), "is no affinity, none is used; write None or ClientIP")
		return 0
	}
	config := svc.Spec.SessionAffinityConfig
	if config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
		return fallback
	}
	seconds := *config.ClientIP.TimeoutSeconds
	if seconds < 1 || seconds > 86400 {
		on.add("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds,
			fmt.Sprintf("must be 1 to 86400; %d is used", corev1.DefaultClientIPServiceAffinitySeconds))
		return fallback
	}
	return time.Duration(seconds) * time.Second
}

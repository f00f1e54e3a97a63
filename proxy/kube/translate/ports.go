package translate

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portald/portald/platform/inet"
	"github.com/portald/portald/portal/service"
)

// servicePort is a port of a Service that can be served.
type servicePort struct {
	name     service.PortName
	number   uint16
	nodePort uint16 // 0 = none
}

// servicePorts returns the ports that can be served, or whose clients are refused since the mode does not carry the
// protocol. Their names are unique, and so are number and protocol together.
func servicePorts(svc *corev1.Service, mode service.Mode, opts Options, on objectReport) []servicePort {
	out, taken := make([]servicePort, 0, len(svc.Spec.Ports)), takenPorts{}
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
			on.add(field+".name", p.Name, "is not a port name; write at most 63 lower-case letters, digits and dashes")
			continue
		case p.Name == "" && len(svc.Spec.Ports) > 1:
			on.add(field+".name", p.Name, "is missing: each port of a Service with several ports needs a name")
			continue
		}
		sp := servicePort{
			name:   service.PortName{Namespace: svc.Namespace, Name: svc.Name, Port: p.Name, Protocol: protocol},
			number: uint16(p.Port),
		}
		if first, collides := taken.by(sp); collides {
			on.add(field, p.Name, fmt.Sprintf("has the name, or the number and protocol, of port %q; the first is served",
				first))
			continue
		}
		if !mode.Carries(protocol) {
			on.add(field+".protocol", string(p.Protocol), adviceOnProtocol(opts))
			if opts.NoRules {
				continue // nor can it be refused
			}
		}
		sp.nodePort = nodePortOf(svc, p.NodePort, field, on)
		out = append(out, sp)
	}
	return out
}

// takenPorts has the names of ports, each under its name and under its number and protocol: a Service cannot have two
// of either.
type takenPorts map[any]string

// by takes a port. Collides: it is taken already, by the port of that name.
func (t takenPorts) by(p servicePort) (first string, collides bool) {
	type address struct {
		number   uint16
		protocol inet.Protocol
	}
	at := address{p.number, p.name.Protocol}
	for _, key := range []any{p.name.Port, at} {
		if first, collides = t[key]; collides {
			return first, true
		}
	}
	t[p.name.Port], t[at] = p.name.Port, p.name.Port
	return "", false
}

func nodePortOf(svc *corev1.Service, port int32, field string, on objectReport) uint16 {
	if port == 0 {
		return 0
	}
	if t := svc.Spec.Type; t != corev1.ServiceTypeNodePort && t != corev1.ServiceTypeLoadBalancer {
		on.add(field+".nodePort", port, "needs spec.type NodePort or LoadBalancer; write it, or remove the node port")
		return 0
	}
	if !isPort(port) {
		on.add(field+".nodePort", port, "must be 1 to 65535")
		return 0
	}
	return uint16(port)
}

func isPort(n int32) bool { return n >= 1 && n <= 65535 }

// protocolOf parses a protocol; an empty one is TCP, as for the API server. Advice is as in parseAddr.
func protocolOf(p corev1.Protocol) (protocol inet.Protocol, advice string) {
	switch p {
	case corev1.ProtocolTCP, "":
		return inet.TCP, ""
	case corev1.ProtocolUDP:
		return inet.UDP, ""
	case corev1.ProtocolSCTP:
		return inet.SCTP, ""
	}
	return 0, "is not a protocol of a Service; write TCP, UDP or SCTP"
}

// adviceOnProtocol is for a port whose protocol the mode of its Service does not carry.
func adviceOnProtocol(opts Options) string {
	switch {
	case opts.NoRules:
		return "takes the kernel of Linux, this port is not served on this node; write TCP or UDP"
	case opts.refuses("mode"):
		return "is not carried in mode userspace, clients of this port are refused; set the daemon's mode to iptables, " +
			"nftables or ipvs: this node refuses the annotation " + annotationPrefix + "mode (refusedAnnotations)"
	}
	return "is not carried in mode userspace, clients of this port are refused; annotate the Service with " + toKernel +
		", or set the daemon's mode to iptables, nftables or ipvs"
}

// affinityOf is how long a client keeps its endpoint, 0 without affinity. The bounds are the API server's.
func affinityOf(svc *corev1.Service, on objectReport) time.Duration {
	const fallback = time.Duration(corev1.DefaultClientIPServiceAffinitySeconds) * time.Second
	switch svc.Spec.SessionAffinity {
	case corev1.ServiceAffinityClientIP:
	case corev1.ServiceAffinityNone, "":
		return 0
	default:
		on.add("spec.sessionAffinity", string(svc.Spec.SessionAffinity),
			"is not an affinity, None is used; write None or ClientIP")
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

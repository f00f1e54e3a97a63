package translate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/portal/service"
)

// readTraffic sets the traffic policies of a Service, and the port of its health check.
func readTraffic(svc *corev1.Service, port *service.Port, on objectReport) {
	const advice = "is not a traffic policy, Cluster is used; write Cluster or Local"
	switch policy := valueOr(svc.Spec.InternalTrafficPolicy, ""); policy {
	case corev1.ServiceInternalTrafficPolicyLocal:
		port.InternalLocal = true
	case corev1.ServiceInternalTrafficPolicyCluster, "":
	default:
		on.add("spec.internalTrafficPolicy", string(policy), advice)
	}
	switch policy := svc.Spec.ExternalTrafficPolicy; policy {
	case corev1.ServiceExternalTrafficPolicyLocal:
		port.ExternalLocal = external(svc)
	case corev1.ServiceExternalTrafficPolicyCluster, "":
	default:
		on.add("spec.externalTrafficPolicy", string(policy), advice)
	}
	port.HealthCheckPort = healthCheckPort(svc, port.ExternalLocal, on)
}

// external tells whether the Service has frontends for clients outside of the cluster, to which its external policy
// applies.
func external(svc *corev1.Service) bool {
	t := svc.Spec.Type
	return t == corev1.ServiceTypeNodePort || t == corev1.ServiceTypeLoadBalancer || len(svc.Spec.ExternalIPs) > 0
}

// healthCheckPort is the health check port of a LoadBalancer with the Local policy; others have none.
func healthCheckPort(svc *corev1.Service, local bool, on objectReport) uint16 {
	const field = "spec.healthCheckNodePort"
	switch port := svc.Spec.HealthCheckNodePort; {
	case port == 0:
		return 0
	case svc.Spec.Type != corev1.ServiceTypeLoadBalancer || !local:
		on.add(field, port,
			"needs spec.type LoadBalancer and spec.externalTrafficPolicy Local; write them, or remove the port")
		return 0
	case !isPort(port):
		on.add(field, port, "must be 1 to 65535; health checks of load balancers fail")
		return 0
	default:
		return uint16(port)
	}
}

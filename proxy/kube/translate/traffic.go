package translate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/proxy/service"
)

// readTraffic fills in which endpoints the clients of a Service may be led to, and where load balancers ask for them.
func readTraffic(svc *corev1.Service, port *service.Port, on objectReport) {
	const advice = "is no traffic policy, Cluster is used; write Cluster or Local"
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

// external tells whether clients outside the cluster can reach the Service: only then its external policy has a meaning.
func external(svc *corev1.Service) bool {
	t := svc.Spec.Type
	return t == corev1.ServiceTypeNodePort || t == corev1.ServiceTypeLoadBalancer || len(svc.Spec.ExternalIPs) > 0
}

// healthCheckPort is the port of a LoadBalancer with the Local policy; others have none.
func healthCheckPort(svc *corev1.Service, local bool, on objectReport) uint16 {
	const field = "spec.healthCheckNodePort"
	switch port := svc.Spec.HealthCheckNodePort; {
	case port == 0:
		return 0
	case svc.Spec.Type != corev1.ServiceTypeLoadBalancer || !local:
		on.add(field, port, "needs spec.type LoadBalancer and spec.externalTrafficPolicy Local; set them, or remove the port")
		return 0
	case !isPort(port):
		on.add(field, port, "must be 1 to 65535; load balancers find no answer")
		return 0
	default:
		return uint16(port)
	}
}

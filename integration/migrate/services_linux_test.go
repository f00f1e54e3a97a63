package migrate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/integration/apibed"
	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
)

// services makes Services of each kind.
func services(n *cluster.Namespace) {
	n.Service("cart", alike("cart", bed.NodePort, bed.IP4, bed.IP6))
	n.Service("nobody", alike("nobody", 30081, "10.96.0.11", "fd00:10:96::11"))
	sticky := alike("cart", 30084, "10.96.0.14", "fd00:10:96::14")
	sticky.SessionAffinity = corev1.ServiceAffinityClientIP
	n.Service("sticky", sticky)
	local := alike("cart", 30085, "10.96.0.15", "fd00:10:96::15")
	local.Type, local.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
	local.HealthCheckNodePort, local.LoadBalancerSourceRanges = healthCheck, []string{"192.168.0.0/16", "fd00::/16"}
	local.ExternalIPs = []string{"203.0.113.9"}
	n.Service("local", local)
	n.SetIngress("local", "203.0.113.1", "2001:db8::1")
}

// alike is a dual-stack Service of type NodePort with TCP and UDP at port 80.
func alike(app string, nodePort int32, ips ...string) corev1.ServiceSpec {
	both := corev1.IPFamilyPolicyRequireDualStack
	spec := corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, IPFamilyPolicy: &both, ClusterIP: ips[0], ClusterIPs: ips,
		Ports: apibed.Web(), Selector: map[string]string{"app": app}}
	for i := range spec.Ports {
		spec.Ports[i].NodePort = nodePort
	}
	return spec
}

// remove deletes a Service if it is there.
func remove(n *cluster.Namespace, name string) {
	n.Helper()
	n.Kubectl("", "delete", "service", name, "--ignore-not-found")
}

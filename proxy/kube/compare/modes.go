package compare

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/portald/portald/portal/service"
)

// Annotations that make portald serve a Service as kube-proxy does.
const (
	annotateKernel      = "annotate the Service with portald.io/mode: kernel"
	annotateTransparent = "portald.io/client-address: transparent"
)

// inUserspace finds what differs for a Service whose connections portald makes itself.
func (c *comparison) inUserspace(svc *corev1.Service, port *service.Port) {
	address := port.Policy.ClientAddress
	if address == service.AddressDefault {
		address = c.opts.ClientAddress
	}
	if port.ExternalLocal && address == service.AddressNode {
		c.add(svc, "spec.externalTrafficPolicy", svc.Spec.ExternalTrafficPolicy, "endpoints see the node's address, not the "+
			"client's; "+annotateKernel+", "+annotateTransparent+", or portald.io/client-address: proxy-v2 if they read it")
	}
	if port.Affinity > 0 {
		c.add(svc, "spec.sessionAffinity", svc.Spec.SessionAffinity, "a client whose endpoint does not answer is bound to "+
			"another one; to have it fail as in the kernel, "+annotateKernel)
	}
	if len(port.SourceRanges) > 0 {
		c.add(svc, "spec.loadBalancerSourceRanges", svc.Spec.LoadBalancerSourceRanges, "a client outside that only the "+
			"daemon can tell is reset, where rules would drop it; to have it dropped, "+annotateKernel)
	}
	c.policies(svc, port, address)
}

// inKernel finds what differs for a Service that the kernel carries.
func (c *comparison) inKernel(svc *corev1.Service, ports []*service.Port) {
	for _, p := range ports {
		if n := len(p.Endpoints); p.Affinity > 0 && n > c.opts.MaxBound {
			c.add(svc, "spec.sessionAffinity", svc.Spec.SessionAffinity, fmt.Sprintf("each node forwards port %s to %d of its "+
				"%d endpoints, which it chooses itself; remove the affinity to use all", p.Name.Port, c.opts.MaxBound, n))
		}
	}
}

package compare

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/portald/portald/portal/service"
)

// policies finds the NetworkPolicies that tell the clients of a Service in mode userspace apart: to the network, the
// node dials its endpoints, and clients connect to the node.
func (c *comparison) policies(svc *corev1.Service, port *service.Port, address service.ClientAddress) {
	if len(c.Policies) == 0 {
		return
	}
	pods := c.podLabels(svc)
	for _, p := range c.Policies {
		if address != service.AddressTransparent && p.Namespace == svc.Namespace && selectsClients(p) &&
			matchesAny(&p.Spec.PodSelector, pods) {
			c.addPolicy(svc, p, "spec.ingress", "selects the clients of this Service, whose endpoints see the node's address: "+
				"clients may be refused, or let in, as the node is; "+annotateKernel+", or "+annotateTransparent)
		}
		if c.reaches(p, svc, pods, port.Endpoints) {
			c.addPolicy(svc, p, "spec.egress", "lets clients reach the endpoints of this Service, but they connect to the "+
				"node, which many networks refuse; "+annotateKernel+", or allow the addresses of nodes in the policy")
		}
	}
}

func (c *comparison) addPolicy(svc *corev1.Service, p *networkingv1.NetworkPolicy, field, advice string) {
	c.add(svc, field, "", advice)
	last := &c.differences[len(c.differences)-1]
	last.Object = "networkpolicy " + p.Namespace + "/" + p.Name
	last.Value = "of pods " + metav1.FormatLabelSelector(&p.Spec.PodSelector)
}

// selectsClients tells whether a policy lets some clients in and others not.
func selectsClients(p *networkingv1.NetworkPolicy) bool {
	types := p.Spec.PolicyTypes
	if len(types) > 0 && !slices.Contains(types, networkingv1.PolicyTypeIngress) {
		return false
	}
	return !slices.ContainsFunc(p.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
		return len(r.From) == 0 && len(r.Ports) == 0
	})
}

// reaches tells whether a policy lets clients connect to the endpoints of a Service, and not to every node.
func (c *comparison) reaches(
	p *networkingv1.NetworkPolicy, svc *corev1.Service, pods []labels.Set, endpoints []service.Endpoint,
) bool {
	return slices.ContainsFunc(p.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
		return slices.ContainsFunc(r.To, func(peer networkingv1.NetworkPolicyPeer) bool {
			if peer.IPBlock != nil {
				return c.withoutNodes(*peer.IPBlock, endpoints)
			}
			return c.isPeer(peer, p.Namespace, svc.Namespace, pods)
		})
	})
}

// isPeer tells whether a peer of a policy is one of the pods of a namespace.
func (c *comparison) isPeer(peer networkingv1.NetworkPolicyPeer, policy, namespace string, pods []labels.Set) bool {
	switch {
	case peer.NamespaceSelector == nil && policy != namespace,
		peer.NamespaceSelector != nil && !matches(peer.NamespaceSelector, c.namespaceLabels(namespace)):
		return false
	}
	return len(pods) > 0 && (peer.PodSelector == nil || matchesAny(peer.PodSelector, pods))
}

// withoutNodes tells whether a range of addresses has an endpoint, and not all nodes.
func (c *comparison) withoutNodes(block networkingv1.IPBlock, endpoints []service.Endpoint) bool {
	prefix, err := netip.ParsePrefix(block.CIDR)
	if err != nil { // the API server does not accept it
		return false
	}
	if !slices.ContainsFunc(endpoints, func(e service.Endpoint) bool { return prefix.Contains(e.Addr.Addr()) }) {
		return false
	}
	return len(c.Nodes) == 0 || slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool {
		return !slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool {
			addr, err := netip.ParseAddr(a.Address)
			return err == nil && prefix.Contains(addr)
		})
	})
}

func matchesAny(selector *metav1.LabelSelector, sets []labels.Set) bool {
	return slices.ContainsFunc(sets, func(s labels.Set) bool { return matches(selector, s) })
}

// matches is false for a selector that is invalid, which the API server does not accept.
func matches(selector *metav1.LabelSelector, set labels.Set) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(set)
}

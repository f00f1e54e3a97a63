package translate

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Node has the fields of a Node object that the daemon uses.
type Node struct {
	Name      string
	Zone      string         // label topology.kubernetes.io/zone
	Addresses []netip.Addr   // internal ones first, then external; invalid ones are ignored
	PodCIDRs  []netip.Prefix // of its pods, if the cluster assigns them by node
	// Eligible tells whether load balancers may use it: it is not being deleted, and the cluster autoscaler has not
	// tainted it for deletion.
	Eligible bool
}

// Equal tells whether both say the same.
func (n Node) Equal(o Node) bool {
	return n.Name == o.Name && n.Zone == o.Zone && n.Eligible == o.Eligible &&
		slices.Equal(n.Addresses, o.Addresses) && slices.Equal(n.PodCIDRs, o.PodCIDRs)
}

// taintToBeDeleted is the cluster autoscaler's.
const taintToBeDeleted = "ToBeDeletedByClusterAutoscaler"

func nodeOf(n *corev1.Node) Node {
	return Node{
		Name:      n.Name,
		Zone:      n.Labels[corev1.LabelTopologyZone],
		Addresses: nodeAddresses(n),
		PodCIDRs:  podCIDRs(n),
		Eligible: n.DeletionTimestamp.IsZero() &&
			!slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintToBeDeleted }),
	}
}

func nodeAddresses(n *corev1.Node) (out []netip.Addr) {
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range n.Status.Addresses {
			if a.Type != kind {
				continue
			}
			if addr, advice := parseAddr(a.Address); advice == "" {
				out = append(out, addr)
			}
		}
	}
	return out
}

func podCIDRs(n *corev1.Node) (out []netip.Prefix) {
	all := n.Spec.PodCIDRs
	if len(all) == 0 && n.Spec.PodCIDR != "" {
		all = []string{n.Spec.PodCIDR}
	}
	for _, text := range all {
		if prefix, advice := parsePrefix(text); advice == "" {
			out = append(out, prefix)
		}
	}
	return out
}

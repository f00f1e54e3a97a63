package kube

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Node is what is known of this node.
type Node struct {
	Name      string
	Zone      string       // label topology.kubernetes.io/zone
	Addresses []netip.Addr // internal ones first, then external; those that cannot be read are left out
}

func nodeOf(n *corev1.Node) Node {
	out := Node{Name: n.Name, Zone: n.Labels[corev1.LabelTopologyZone]}
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range n.Status.Addresses {
			if a.Type != kind {
				continue
			}
			if addr, advice := parseAddr(a.Address); advice == "" {
				out.Addresses = append(out.Addresses, addr)
			}
		}
	}
	return out
}

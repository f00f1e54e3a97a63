package cluster

import (
	"context"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/integration/topology"
)

// Node creates a ready Node object for the node of a network, with its addresses and pod CIDRs. Labels may be nil; the
// zone is the label corev1.LabelTopologyZone.
func (c *Cluster) Node(t testing.TB, name string, n *topology.Net, labels map[string]string) {
	t.Helper()
	if err := c.CreateNode(t.Context(), name, n, labels); err != nil {
		t.Fatal(err)
	}
}

// CreateNode is Node outside a test.
func (c *Cluster) CreateNode(ctx context.Context, name string, n *topology.Net, labels map[string]string) error {
	nodes := c.Admin.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{PodCIDRs: podRanges(n), PodCIDR: podRanges(n)[0]},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	node.Status = corev1.NodeStatus{
		Addresses:  nodeAddresses(name, n.Node),
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}
	_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

func podRanges(n *topology.Net) []string {
	v4, v6 := n.PodRange()
	if !n.Node.IPv6.IsValid() {
		return []string{v4.String()}
	}
	return []string{v4.String(), v6.String()}
}

func nodeAddresses(name string, h *topology.Host) []corev1.NodeAddress {
	all := []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
	for _, a := range addresses(h) {
		all = append(all, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.String()})
	}
	return all
}

// addresses are a host's, one of each family it has.
func addresses(h *topology.Host) []netip.Addr {
	if h.IPv6.IsValid() {
		return []netip.Addr{h.IPv4, h.IPv6}
	}
	return []netip.Addr{h.IPv4}
}

// Package cluster runs a real Kubernetes control plane for tests on a host of a topology, and makes the objects there
// that a service proxy follows: Nodes, Services, and Pods that stand for hosts. It plays scheduler and kubelet;
// EndpointSlices are the control plane's own work. The binary is integration/kubetest, named by the variable
// KUBETEST. It knows nothing of portald.
//
//	func TestX(t *testing.T) {
//		net, err := topology.NewCluster(t.Context(), 2, topology.Options{Pods: 2})
//		...
//		c := cluster.New(t, net.Control)
//		c.Node(t, "a", net.Nets[0], nil)
//		shop := c.Namespace(t, "shop")
//		web := corev1.ServicePort{Port: 80, TargetPort: intstr.FromInt32(8080)}
//		shop.Service("cart", corev1.ServiceSpec{Ports: []corev1.ServicePort{web}})
//		shop.Pod("cart-1", "cart", "a", net.Nets[0].Pod(0))
//		shop.WaitEndpoints("cart", "10.244.0.2 ready")
//		// portald --kubeconfig c.Kubeconfig(cluster.Proxy) on net.Nets[0].Node
//		c.Kill(cluster.APIServer)
//	}
package cluster

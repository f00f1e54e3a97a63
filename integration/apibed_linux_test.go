package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// apiBed is a control plane and its nodes: "a", "b" and so on, each in a zone of its own, "zone-a". All pods serve TCP and
// UDP at podPort, and call themselves by their node and number: "a0". Parts of a test share it, each with a view of its own.
type apiBed struct {
	*testing.T
	net   *topology.Cluster
	api   *cluster.Cluster
	sites []*site
}

// site is one node of a cluster, with its clients and pods.
type site struct {
	*bed
	name string  // the Node's
	d    *daemon // the portald that serveAll or serveOn has started; nil: none
}

// newAPIBed makes the test run beside others, with a control plane of its own. Flags are those of "kubetest up".
func newAPIBed(t *testing.T, nodes, pods int, flags ...string) *apiBed {
	t.Helper()
	cluster.Require(t, "go", "iptables-save", "ip6tables-save", "ip")
	t.Parallel()
	net, err := topology.NewCluster(t.Context(), nodes, topology.Options{
		Clients: 2, Pods: pods, IPv6: true, Name: fmt.Sprintf("n%d-", networks.Add(1)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := net.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &apiBed{T: t, net: net, api: cluster.New(t, net.Control, flags...)}
	for i, n := range net.Nets {
		b.sites = append(b.sites, b.newSite(string(rune('a'+i)), n, pods))
	}
	return b
}

func (b *apiBed) newSite(name string, n *topology.Net, pods int) *site {
	b.Helper()
	s := &site{name: name, bed: &bed{T: b.T, net: n, node: n.Node, client: n.Client(0), dir: b.TempDir()}}
	s.routeOut()
	b.api.Node(b, name, n, map[string]string{corev1.LabelTopologyZone: "zone-" + name})
	for i := range pods {
		s.serve(n.Pod(i), podPort, namesItself(fmt.Sprint(name, i)))
		s.serveUDP(n.Pod(i), podPort, fmt.Sprint(name, i))
	}
	return s
}

// run runs a part of the test beside others, with a namespace of its own.
func (b *apiBed) run(name string, part func(*apiBed, *cluster.Namespace)) {
	b.Run(name, func(t *testing.T) {
		t.Parallel()
		view := b.as(t)
		part(view, b.api.Namespace(t, strings.ReplaceAll(name, " ", "-")))
	})
}

// as is the bed as another test sees it, one within this one.
func (b *apiBed) as(t *testing.T) *apiBed {
	view := *b
	view.T, view.sites = t, nil
	for _, s := range b.sites {
		view.sites = append(view.sites, s.as(t))
	}
	return &view
}

func (s *site) as(t *testing.T) *site {
	own, view := *s.bed, *s
	own.T = t
	view.bed = &own
	if s.d != nil {
		d := *s.d
		d.bed, view.d = &own, &d
	}
	return &view
}

// hosts are one of each kind: a client, the node itself, a pod.
func (s *site) hosts() []*topology.Host { return []*topology.Host{s.client, s.node, s.net.Pod(2)} }

// clusterCIDR says which addresses are pods'.
const clusterCIDR = "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56"

// serveAll starts a portald on each of these nodes and waits until they are ready.
func (b *apiBed) serveAll(sites []*site, args ...string) {
	b.Helper()
	for _, s := range sites {
		s.d = s.launch(nil, b.flags(s, args...)...)
	}
	for _, s := range sites {
		s.d.waitReady()
	}
}

// serveOn starts a portald on one node, and waits until it is ready.
func (b *apiBed) serveOn(s *site, args ...string) *daemon {
	b.Helper()
	b.serveAll([]*site{s}, args...)
	return s.d
}

// flags are those by which portald takes the place of kube-proxy on a node.
func (b *apiBed) flags(s *site, args ...string) []string {
	return append([]string{"--kubeconfig=" + b.api.Kubeconfig(cluster.Proxy), "--hostname-override=" + s.name, clusterCIDR}, args...)
}

// pod is the host that is called so: "b1".
func (b *apiBed) pod(name string) *topology.Host {
	return b.sites[name[0]-'a'].net.Pod(int(name[1] - '0'))
}

// addPods makes Pods of an app that are called as their hosts.
func (b *apiBed) addPods(n *cluster.Namespace, app string, names ...string) {
	b.Helper()
	for _, name := range names {
		n.Pod(name, app, name[:1], b.pod(name))
	}
}

// web is one port of both protocols each, 80, that leads to podPort.
func web() []corev1.ServicePort {
	return []corev1.ServicePort{
		{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(podPort)},
		{Name: "talk", Protocol: corev1.ProtocolUDP, Port: 80, TargetPort: intstr.FromInt32(podPort)},
	}
}

// eventually waits for something that may take the control plane a while.
func (b *apiBed) eventually(what string, ok func() bool) {
	b.Helper()
	if !within(apiPatience, ok) {
		b.Fatalf("waited %v for %s", apiPatience, what)
	}
}

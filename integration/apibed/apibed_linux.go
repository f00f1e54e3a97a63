package apibed

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portald/portald/integration/bed"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// Bed is a control plane and its nodes: "a", "b" and so on, each in a zone of its own, "zone-a". All pods serve TCP and
// UDP at podPort, and call themselves by their node and number: "a0". Parts of a test share it, each with a view of
// its own.
type Bed struct {
	*testing.T
	net   *topology.Cluster
	API   *cluster.Cluster
	Sites []*Site
}

// Site is one node of a cluster, with its clients and pods.
type Site struct {
	*bed.Bed
	Name string      // the Node's
	D    *bed.Daemon // the portald that serveAll or serveOn has started; nil: none
}

// New makes the test run beside others, with a control plane of its own. Flags are those of "kubetest up".
func New(t *testing.T, nodes, pods int, flags ...string) *Bed {
	t.Helper()
	cluster.Require(t, "go", "iptables-save", "ip6tables-save", "ip")
	t.Parallel()
	net, err := topology.NewCluster(t.Context(), nodes, topology.Options{
		Clients: 2, Pods: pods, IPv6: true, Name: fmt.Sprintf("n%d-", bed.Networks.Add(1)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := net.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &Bed{T: t, net: net, API: cluster.New(t, net.Control, flags...)}
	for i, n := range net.Nets {
		b.Sites = append(b.Sites, b.newSite(string(rune('a'+i)), n, pods))
	}
	return b
}

func (b *Bed) newSite(name string, n *topology.Net, pods int) *Site {
	b.Helper()
	s := &Site{Name: name, Bed: &bed.Bed{T: b.T, Net: n, Node: n.Node, Client: n.Client(0), Dir: b.TempDir()}}
	s.RouteOut()
	b.API.Node(b, name, n, map[string]string{corev1.LabelTopologyZone: "zone-" + name})
	for i := range pods {
		s.Serve(n.Pod(i), bed.PodPort, bed.NamesItself(fmt.Sprint(name, i)))
		s.ServeUDP(n.Pod(i), bed.PodPort, fmt.Sprint(name, i))
	}
	return s
}

// Part runs a part of the test beside others, with a namespace of its own.
func (b *Bed) Part(name string, part func(*Bed, *cluster.Namespace)) {
	b.Run(name, func(t *testing.T) {
		t.Parallel()
		view := b.As(t)
		part(view, b.API.Namespace(t, strings.ReplaceAll(name, " ", "-")))
	})
}

// As is the bed as another test sees it, one within this one.
func (b *Bed) As(t *testing.T) *Bed {
	view := *b
	view.T, view.Sites = t, nil
	for _, s := range b.Sites {
		view.Sites = append(view.Sites, s.as(t))
	}
	return &view
}

func (s *Site) as(t *testing.T) *Site {
	own, view := *s.Bed, *s
	own.T = t
	view.Bed = &own
	if s.D != nil {
		d := *s.D
		d.Bed, view.D = &own, &d
	}
	return &view
}

// Hosts are one of each kind: a client, the node itself, a pod.
func (s *Site) Hosts() []*topology.Host { return []*topology.Host{s.Client, s.Node, s.Net.Pod(2)} }

// clusterCIDR says which addresses are pods'.
const clusterCIDR = "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56"

// ServeAll starts a portald on each of these nodes and waits until they are ready.
func (b *Bed) ServeAll(sites []*Site, args ...string) {
	b.Helper()
	for _, s := range sites {
		s.D = s.Launch(nil, b.Flags(s, args...)...)
	}
	for _, s := range sites {
		s.D.WaitReady()
	}
}

// ServeOn starts a portald on one node, and waits until it is ready.
func (b *Bed) ServeOn(s *Site, args ...string) *bed.Daemon {
	b.Helper()
	b.ServeAll([]*Site{s}, args...)
	return s.D
}

// Flags are those by which portald takes the place of kube-proxy on a node.
func (b *Bed) Flags(s *Site, args ...string) []string {
	return append([]string{"--kubeconfig=" + b.API.Kubeconfig(cluster.Proxy), "--hostname-override=" + s.Name,
		clusterCIDR}, args...)
}

// Pod is the host that is called so: "b1".
func (b *Bed) Pod(name string) *topology.Host {
	return b.Sites[name[0]-'a'].Net.Pod(int(name[1] - '0'))
}

// AddPods makes Pods of an app that are called as their hosts.
func (b *Bed) AddPods(n *cluster.Namespace, app string, names ...string) {
	b.Helper()
	for _, name := range names {
		n.Pod(name, app, name[:1], b.Pod(name))
	}
}

// Web is one port of both protocols each, 80, that leads to podPort.
func Web() []corev1.ServicePort {
	return []corev1.ServicePort{
		{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(bed.PodPort)},
		{Name: "talk", Protocol: corev1.ProtocolUDP, Port: 80, TargetPort: intstr.FromInt32(bed.PodPort)},
	}
}

// Eventually waits for something that may take the control plane a while.
func (b *Bed) Eventually(what string, ok func() bool) {
	b.Helper()
	if !bed.Within(ApiPatience, ok) {
		b.Fatalf("waited %v for %s", ApiPatience, what)
	}
}

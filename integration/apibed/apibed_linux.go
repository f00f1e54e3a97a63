package apibed

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
)

// Bed is a control plane with its nodes "a", "b" and so on, each in its own zone ("zone-a"). All pods serve TCP and UDP
// at bed.PodPort and answer with the name of their node and their number: "a0". The parts of a test share one Bed, each
// through a view with its own testing.T.
type Bed struct {
	*testing.T
	net   *topology.Cluster
	API   *cluster.Cluster
	Sites []*Site
}

// Site is one node of a cluster, with its clients and pods.
type Site struct {
	*bed.Bed
	Name string      // name of the Node object
	D    *bed.Daemon // the portald that ServeAll or ServeOn started; nil: none
}

// New creates a control plane with nodes for the test and marks the test as parallel. The flags are passed to
// "kubetest up".
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
	s.Install()
	b.API.Node(b, name, n, map[string]string{corev1.LabelTopologyZone: "zone-" + name})
	for i := range pods {
		s.Serve(n.Pod(i), bed.PodPort, bed.NamesItself(fmt.Sprint(name, i)))
		s.ServeUDP(n.Pod(i), bed.PodPort, fmt.Sprint(name, i))
	}
	return s
}

// Part runs a subtest in parallel with others, with its own namespace.
func (b *Bed) Part(name string, part func(*Bed, *cluster.Namespace)) {
	b.Run(name, func(t *testing.T) {
		t.Parallel()
		view := b.As(t)
		part(view, b.API.Namespace(t, strings.ReplaceAll(name, " ", "-")))
	})
}

// As returns a view of the bed for a subtest.
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

// Hosts returns one host of each kind: a client, the node and a pod.
func (s *Site) Hosts() []*topology.Host { return []*topology.Host{s.Client, s.Node, s.Net.Pod(2)} }

// clusterCIDR is the flag with the pod address ranges.
const clusterCIDR = "--cluster-cidr=10.244.0.0/16,fd00:10:244::/56"

// ServeAll starts a portald on each of these nodes and waits until all are ready.
func (b *Bed) ServeAll(sites []*Site, args ...string) {
	b.Helper()
	for _, s := range sites {
		s.D = s.Launch(nil, b.Flags(s, args...)...)
	}
	for _, s := range sites {
		s.D.WaitReady()
	}
}

// ServeOn starts a portald on one node and waits until it is ready.
func (b *Bed) ServeOn(s *Site, args ...string) *bed.Daemon {
	b.Helper()
	b.ServeAll([]*Site{s}, args...)
	return s.D
}

// Flags returns the flags with which portald replaces kube-proxy on a node.
func (b *Bed) Flags(s *Site, args ...string) []string {
	return append([]string{"--kubeconfig=" + b.API.Kubeconfig(cluster.Proxy), "--hostname-override=" + s.Name,
		clusterCIDR}, args...)
}

// Pod returns the host of a pod by its name, such as "b1".
func (b *Bed) Pod(name string) *topology.Host {
	return b.Sites[name[0]-'a'].Net.Pod(int(name[1] - '0'))
}

// AddPods creates the Pods of an app, named after their hosts.
func (b *Bed) AddPods(n *cluster.Namespace, app string, names ...string) {
	b.Helper()
	for _, name := range names {
		n.Pod(name, app, name[:1], b.Pod(name))
	}
}

// Web returns two service ports, TCP 80 and UDP 80, with bed.PodPort as target.
func Web() []corev1.ServicePort {
	return []corev1.ServicePort{
		{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(bed.PodPort)},
		{Name: "talk", Protocol: corev1.ProtocolUDP, Port: 80, TargetPort: intstr.FromInt32(bed.PodPort)},
	}
}

// Eventually waits until ok returns true; the test fails after ChangeTimeout.
func (b *Bed) Eventually(what string, ok func() bool) {
	b.Helper()
	if !bed.Within(ChangeTimeout, ok) {
		b.Fatalf("waited %v for %s", ChangeTimeout, what)
	}
}

// Package cluster finds the daemons of a cluster through its API server, and reaches their admin sockets by exec in
// their pods: there is no other port to open, and who may exec there is a matter of RBAC.
//
//	nodes, without, err := cluster.Find(ctx, options)
//	client := nodes[0].Client // of the daemon's admin API
//
// Nothing is sent to a node before its client is used.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/kube/apiclient"
)

// Options say which cluster, and which of its nodes.
type Options struct {
	Config    *rest.Config
	Namespace string   // of portald's pods; empty: any
	Nodes     []string // alone, or those of pods, NAMESPACE/POD, and addresses; empty: all
	ReadOnly  bool     // nothing is to be changed: it takes fewer rights
}

// Node is a node with a daemon in a pod.
type Node struct {
	Name      string
	Namespace string // of the pod
	Pod       string
	Client    *adminsocket.Client // of the daemon

	exec   executor
	socket []string // the flag, if it is not the usual one
}

// The pods of portald, as deploy/ has them.
const (
	selector  = "app.kubernetes.io/name=portald"
	container = "portald"
	// SocketAnnotation is on a pod whose daemon's admin socket is not adminsocket.DefaultSocket.
	SocketAnnotation = "portald.io/admin-socket"
)

// ErrNone is the error of a cluster, or of nodes that were named, without a daemon in a pod.
var ErrNone = errors.New("no pod of portald runs")

// Find returns the nodes with a daemon in a pod, in the order of their names, and the names of those without, as far as
// the caller may list nodes.
func Find(ctx context.Context, o Options) (nodes []Node, without []string, err error) {
	utilruntime.ErrorHandlers = nil // it prints the end of each stream, of which callers are told
	core, err := coreClient(o.Config)
	if err != nil {
		return nil, nil, err
	}
	pods, err := listPods(ctx, core, o.Namespace)
	if err != nil {
		return nil, nil, err
	}
	if err := oneNamespace(pods); err != nil {
		return nil, nil, err
	}
	known := ofNodes(pods)
	if o.Nodes, err = nodesOf(ctx, core, o.Nodes, known); err != nil {
		return nil, nil, err
	}
	for name, pod := range known {
		if len(o.Nodes) == 0 || slices.Contains(o.Nodes, name) {
			nodes = append(nodes, newNode(core, o, pod))
		}
	}
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	if without = withoutPod(ctx, core, nodes, o.Nodes); len(nodes) > 0 {
		return nodes, without, nil
	}
	where := "in any namespace"
	if o.Namespace != "" {
		where = "in namespace " + o.Namespace
	}
	if len(o.Nodes) > 0 {
		where += " on " + strings.Join(o.Nodes, ", ")
	}
	return nil, without, fmt.Errorf("%w %s with the label %s: see kubectl get pods -A -l %s", ErrNone, where, selector,
		selector)
}

func coreClient(config *rest.Config) (rest.Interface, error) {
	own := rest.CopyConfig(config)
	own.GroupVersion, own.APIPath = &schema.GroupVersion{Version: "v1"}, "/api"
	own.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(apiclient.Scheme, apiclient.Codecs).WithoutConversion()
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("prepare for API server %s: %w", config.Host, err)
	}
	return client, nil
}

// usual are the namespaces where deploy/ has portald.
var usual = []string{"kube-system", "portald"}

// listPods lists the pods of portald: in a namespace, or in all if the caller may, or else where they usually are.
func listPods(ctx context.Context, core rest.Interface, namespace string) (pods []corev1.Pod, err error) {
	if namespace != "" {
		return podsOf(ctx, core, namespace, "")
	}
	pods, err = podsOf(ctx, core, "", "")
	for _, namespace := range usual {
		if apierrors.IsForbidden(err) {
			if some, one := podsOf(ctx, core, namespace, ""); one == nil {
				pods, err = some, nil
			}
		}
	}
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("%w; --portald-namespace names a namespace in which you may", err)
	}
	return pods, err
}

// podsOf lists the pods of portald in a namespace, empty: in all, that have these fields, empty: any.
func podsOf(ctx context.Context, core rest.Interface, namespace, fields string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := core.Get().NamespaceIfScoped(namespace, namespace != "").Resource("pods").
		Param("labelSelector", selector).Param("fieldSelector", fields).Param("resourceVersion", "0").Do(ctx).Into(&list)
	if err != nil {
		return nil, fmt.Errorf("list portald's pods: %w", err)
	}
	return list.Items, nil
}

// oneNamespace refuses pods of several: portald may be there instead of another service proxy, and beside one.
func oneNamespace(pods []corev1.Pod) error {
	var all []string
	for i := range pods {
		all = append(all, pods[i].Namespace)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > 1 {
		return fmt.Errorf("portald runs in the namespaces %s: --portald-namespace says which is meant",
			strings.Join(all, ", "))
	}
	return nil
}

// ofNodes returns the pod of each node: while a rollout replaces it, one that is ready, and the youngest of those.
func ofNodes(pods []corev1.Pod) map[string]*corev1.Pod {
	best := map[string]*corev1.Pod{}
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodRunning {
			continue
		}
		if other := best[pod.Spec.NodeName]; other == nil || better(pod, other) {
			best[pod.Spec.NodeName] = pod
		}
	}
	return best
}

func better(a, b *corev1.Pod) bool {
	if ready(a) != ready(b) {
		return ready(a)
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// withoutPod returns the names of nodes that were meant and have no pod. Who may not list nodes gets those that were
// named.
func withoutPod(ctx context.Context, core rest.Interface, nodes []Node, meant []string) (without []string) {
	if len(meant) == 0 {
		var all corev1.NodeList
		if err := core.Get().Resource("nodes").Param("resourceVersion", "0").Do(ctx).Into(&all); err != nil {
			return nil
		}
		for i := range all.Items {
			meant = append(meant, all.Items[i].Name)
		}
	}
	for _, name := range meant {
		if !slices.ContainsFunc(nodes, func(n Node) bool { return n.Name == name }) {
			without = append(without, name)
		}
	}
	slices.Sort(without)
	return without
}

func newNode(core rest.Interface, o Options, pod *corev1.Pod) Node {
	n := Node{Name: pod.Spec.NodeName, Namespace: pod.Namespace, Pod: pod.Name, socket: socketFlag(pod),
		exec: executor{core, o.Config, pod.Namespace, pod.Name}}
	d := &nodeDialer{core: core, options: o, pod: pod}
	n.Client = adminsocket.NewClientOver(fmt.Sprintf("node %s (pod %s/%s)", n.Name, n.Namespace, n.Pod), d.dial)
	return n
}

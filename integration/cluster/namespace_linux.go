package cluster

import (
	"bytes"
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Namespace is a namespace for the objects of a test. A failure of its methods ends the test.
type Namespace struct {
	testing.TB
	name    string
	cluster *Cluster
}

// Namespace creates a namespace and waits until Pods can be created in it.
func (c *Cluster) Namespace(t testing.TB, name string) *Namespace {
	t.Helper()
	n := &Namespace{TB: t, name: name, cluster: c}
	_, err := c.Admin.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	n.must(err)
	eventually(t, "the ServiceAccount default in "+name, func() bool {
		_, err := c.Admin.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	return n
}

func (n *Namespace) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

// Kubectl runs kubectl in the namespace with text as its standard input, and returns what it prints.
func (n *Namespace) Kubectl(text string, args ...string) string {
	n.Helper()
	cmd := n.cluster.Kubectl(n.Context(), append([]string{"--namespace=" + n.name}, args...)...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &out, &said
	if err := cmd.Run(); err != nil {
		n.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, said.String())
	}
	return out.String()
}

// manager is whose fields Apply sets.
const manager = "test"

// Apply makes an object of a resource be as a text in YAML says: it is created, or changed. Unlike other methods it
// returns errors, and can be called by any goroutine.
func (n *Namespace) Apply(ctx context.Context, resource, name, text string) error {
	return n.of(resource).Patch(types.ApplyYAMLPatchType).Namespace(n.name).Resource(resource).Name(name).
		VersionedParams(&metav1.PatchOptions{FieldManager: manager, Force: new(true)}, scheme.ParameterCodec).
		Body([]byte(text)).Do(ctx).Error()
}

// Delete deletes an object of a resource, if there is one, as Apply makes it.
func (n *Namespace) Delete(ctx context.Context, resource, name string) error {
	err := n.of(resource).Delete().Namespace(n.name).Resource(resource).Name(name).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// of is the client of a resource's group.
func (n *Namespace) of(resource string) rest.Interface {
	if resource == "endpointslices" {
		return n.cluster.Admin.DiscoveryV1().RESTClient()
	}
	return n.cluster.Admin.CoreV1().RESTClient()
}

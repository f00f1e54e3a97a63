package cluster

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

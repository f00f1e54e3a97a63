package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/portald/portald/integration/topology"
)

func TestMain(m *testing.M) {
	topology.Enter()
	os.Exit(m.Run())
}

// TestControlPlane runs all parts with one control plane, which takes seconds to start.
func TestControlPlane(t *testing.T) {
	Require(t)
	net, err := topology.NewCluster(t.Context(), 2, topology.Options{Pods: 2, IPv6: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := net.Close(); err != nil {
			t.Error(err)
		}
	})
	began := time.Now()
	c := New(t, net.Control, "--user=jane=readers")
	t.Logf("ready after %v", time.Since(began))
	for i, name := range []string{"a", "b"} {
		c.Node(t, name, net.Nets[i], map[string]string{corev1.LabelTopologyZone: "zone-" + name})
	}
	t.Run("endpoints follow pods", func(t *testing.T) { followPods(t, c, net) })
	t.Run("kubectl", func(t *testing.T) { kubectl(t, c) })
	t.Run("load balancer", func(t *testing.T) { balancer(t, c) })
	t.Run("users", func(t *testing.T) { users(t, c, net) })
	t.Run("api server away", func(t *testing.T) { away(t, c) })
	t.Run("api server paused", func(t *testing.T) { paused(t, c) })
}

func followPods(t *testing.T, c *Cluster, net *topology.Cluster) {
	shop := c.Namespace(t, "shop")
	both := corev1.IPFamilyPolicyRequireDualStack
	s := shop.Service("cart", corev1.ServiceSpec{IPFamilyPolicy: &both, Ports: []corev1.ServicePort{{Port: 80}}})
	if len(s.Spec.ClusterIPs) != 2 {
		t.Errorf("ClusterIPs %v, want one of each family", s.Spec.ClusterIPs)
	}
	shop.Pod("cart-a", "cart", "a", net.Nets[0].Pod(0))
	shop.Pod("cart-b", "cart", "b", net.Nets[1].Pod(1))
	const a4, a6, b4, b6 = "10.244.0.2 ", "fd00:10:244::2 ", "10.244.1.3 ", "fd00:10:244:1::3 "
	shop.WaitEndpoints("cart", a4+"ready", a6+"ready", b4+"ready", b6+"ready")
	shop.SetReady("cart-a", false)
	shop.WaitEndpoints("cart", a4+"unready", a6+"unready", b4+"ready", b6+"ready")
	shop.Terminate("cart-b")
	shop.WaitEndpoints("cart", a4+"unready", a6+"unready", b4+"serving", b6+"serving")
	shop.SetReady("cart-b", false)
	shop.WaitEndpoints("cart", a4+"unready", a6+"unready", b4+"terminating", b6+"terminating")
	shop.Remove("cart-b")
	shop.SetReady("cart-a", true)
	shop.WaitEndpoints("cart", a4+"ready", a6+"ready")
	shop.DeleteService("cart")
	shop.WaitEndpoints("cart")
}

func kubectl(t *testing.T, c *Cluster) {
	n := c.Namespace(t, "by-hand")
	n.Kubectl(`{apiVersion: v1, kind: Service, metadata: {name: written}, spec: {ports: [{port: 80}]}}`, "apply", "-f",
		"-")
	n.ChangeService("written", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
	if got := n.Kubectl("", "get", "service", "written", "-o", "jsonpath={.spec.ports[0].port}"); got != "81" {
		t.Errorf("kubectl sees port %q, want 81", got)
	}
}

func balancer(t *testing.T, c *Cluster) {
	n := c.Namespace(t, "outside")
	n.Service("open", corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}})
	n.SetIngress("open", "203.0.113.1", "203.0.113.2")
	got := n.Kubectl("", "get", "service", "open", "-o", "jsonpath={.status.loadBalancer.ingress[*].ip}")
	if got != "203.0.113.1 203.0.113.2" {
		t.Errorf("ingress %q", got)
	}
}

// A service proxy can read the objects that it needs, from its node; users without rights cannot.
func users(t *testing.T, c *Cluster, net *topology.Cluster) {
	for user, allowed := range map[string]bool{Proxy: true, "jane": false} {
		config, err := c.Config(user)
		if err != nil {
			t.Fatal(err)
		}
		config.Dial = net.Nets[1].Node.Dial
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		list, err := client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
		if allowed && (err != nil || len(list.Items) == 0) || !allowed && !apierrors.IsForbidden(err) {
			t.Errorf("%s lists services: %v, want allowed %v", user, err, allowed)
		}
	}
}

// Objects survive a restart of the API server, and controllers continue after it.
func away(t *testing.T, c *Cluster) {
	n := c.Namespace(t, "lasting")
	must(t, c.Kill(APIServer))
	if _, err := n.Endpoints("cart"); err == nil {
		t.Error("a killed API server answers")
	}
	began := time.Now()
	must(t, c.Start(APIServer))
	t.Logf("back after %v", time.Since(began))
	if err := c.Start(APIServer); err == nil || !strings.Contains(err.Error(), "runs") {
		t.Errorf("started twice: %v, want that it runs", err)
	}
	must(t, c.Stop(APIServer))
	must(t, c.Start(APIServer))
	c.Namespace(t, "later")
}

func paused(t *testing.T, c *Cluster) {
	must(t, c.Pause(APIServer))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := c.Admin.CoreV1().Nodes().Get(ctx, "a", metav1.GetOptions{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused API server answers: %v", err)
	}
	must(t, c.Continue(APIServer))
	if _, err := c.Admin.CoreV1().Nodes().Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	topology.Require(t)
	t.Setenv("REQUIRE_ALL", "")
	t.Setenv(binaryKey, "")
	var f fakeT
	Require(&f)
	if !strings.Contains(f.said, "KUBETEST names no binary") {
		t.Errorf("skipped with %q", f.said)
	}
}

type fakeT struct{ said string }

func (f *fakeT) Helper()                           {}
func (f *fakeT) Skipf(format string, args ...any)  { f.said = fmt.Sprintf(format, args...) }
func (f *fakeT) Fatalf(format string, args ...any) { f.said = "failed" }

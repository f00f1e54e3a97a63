package fleet

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/integration/cluster"
	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
)

func TestMain(m *testing.M) {
	topology.Enter()
	os.Exit(m.Run())
}

// namespace is where the pods of portald are.
const namespace = "kube-system"

// fleet is a cluster with simulated nodes, and the plugin.
type fleet struct {
	*testing.T
	whole   *testing.T // of which it may be a part
	cluster *cluster.Cluster
	plugin  string
	sockets string // the folder
	daemons []*daemon
}

// newFleet starts a control plane with so many nodes, each with a pod of portald and a daemon that answers for it.
func newFleet(t *testing.T, nodes int) *fleet {
	cluster.Require(t)
	net, err := topology.NewCluster(t.Context(), 1, topology.Options{Pods: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := net.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &fleet{T: t, whole: t, plugin: filepath.Join(t.TempDir(), "kubectl-portald"),
		cluster: cluster.New(t, net.Control, "--user=looker=lookers", "--user=operator=operators",
			"--user=stranger=strangers")}
	f.build(f.plugin, "kubectl-portald")
	sockets, err := os.MkdirTemp("", "fleet") // the path of a socket is short
	f.must(err)
	t.Cleanup(func() { os.RemoveAll(sockets) })
	f.sockets = sockets
	f.kubelets(kubeletPort)
	for i := range nodes {
		name := nodeName(i)
		d := &daemon{node: name, records: connlog.NewStream(connlog.DefaultStream), changes: changes.NewLog(10)}
		d.serve(t, sockets, "portald-"+name)
		f.daemons = append(f.daemons, d)
		f.node(name, kubeletPort)
	}
	return f
}

func (f *fleet) build(to, program string) {
	f.Helper()
	build := exec.Command("go", "build", "-trimpath", "-o", to, "github.com/portald/portald/cmd/"+program)
	if out, err := build.CombinedOutput(); err != nil {
		f.Fatalf("%v\n%s", err, out)
	}
}

// The ports of kubelets: of simulated nodes, and of one whose pod has the real program.
const (
	kubeletPort     = 10250
	realKubeletPort = 10251
)

// kubelets answer at a port.
func (f *fleet) kubelets(port int, flags ...string) {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := f.cluster.Host.Command(ctx, os.Getenv("KUBETEST"), append([]string{"kubelets", "--sockets", f.sockets,
		"--listen", fmt.Sprintf("%s:%d", f.cluster.Host.IPv4, port)}, flags...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	f.must(err)
	f.must(cmd.Start())
	f.Cleanup(func() { cancel(); _ = cmd.Wait() }) // it was killed
	if _, err := out.Read(make([]byte, 16)); err != nil {
		f.Fatalf("kubelets have ended: %v", err)
	}
}

// node creates a Node whose kubelet is at a port, with a pod of portald.
func (f *fleet) node(name string, port int32) {
	f.Helper()
	nodes := f.cluster.Admin.CoreV1().Nodes()
	node, err := nodes.Create(f.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	f.must(err)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: f.cluster.Host.IPv4.String()}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = port
	_, err = nodes.UpdateStatus(f.Context(), node, metav1.UpdateOptions{})
	f.must(err)
	f.pod("portald-"+name, name)
}

// pod creates a running pod of portald.
func (f *fleet) pod(name, node string) {
	f.Helper()
	pods := f.cluster.Admin.CoreV1().Pods(namespace)
	labels := map[string]string{"app.kubernetes.io/name": "portald"}
	pod, err := pods.Create(f.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "portald", Image: "none"}}},
	}, metav1.CreateOptions{})
	f.must(err)
	pod.Status.Phase = corev1.PodRunning
	_, err = pods.UpdateStatus(f.Context(), pod, metav1.UpdateOptions{})
	f.must(err)
}

// client creates a running pod that has nothing to do with portald.
func (f *fleet) client(node, address string) {
	f.Helper()
	pods := f.cluster.Admin.CoreV1().Pods("default")
	pod, err := pods.Create(f.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "client"},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "it", Image: "none"}}},
	}, metav1.CreateOptions{})
	f.must(err)
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, address
	pod.Status.PodIPs = []corev1.PodIP{{IP: address}}
	_, err = pods.UpdateStatus(f.Context(), pod, metav1.UpdateOptions{})
	f.must(err)
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// answer is what the plugin printed, and what it took.
type answer struct {
	out, errOut string
	took        time.Duration
	memory      int64 // the most that was resident, bytes
	err         error
}

// command is a run of the plugin as a user of the cluster.
func (f *fleet) command(ctx context.Context, user string, args ...string) *exec.Cmd {
	cmd := f.cluster.Host.Command(ctx, f.plugin, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+f.cluster.Kubeconfig(user))
	return cmd
}

func (f *fleet) as(user string, args ...string) answer {
	var out, errOut bytes.Buffer
	cmd := f.command(f.Context(), user, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	began := time.Now()
	err := cmd.Run()
	a := answer{out: out.String(), errOut: errOut.String(), took: time.Since(began), err: err}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		a.memory = usage.Maxrss << 10
	}
	return a
}

// run runs the plugin as the administrator, and has it succeed.
func (f *fleet) run(args ...string) answer {
	f.Helper()
	a := f.as(cluster.Admin, args...)
	if a.err != nil {
		f.Fatalf("%s: %v\n%s", strings.Join(args, " "), a.err, a.errOut)
	}
	return a
}

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The users of every control plane: an administrator, and one with the rights of a service proxy.
const (
	Admin = "admin"
	Proxy = "system:kube-proxy"
)

// read reads kubetest's description of the control plane.
func (c *Cluster) read(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var ready struct {
		CA          string            `json:"ca"`
		Kubeconfigs map[string]string `json:"kubeconfigs"`
		PIDs        map[Program]int   `json:"pids"`
	}
	if err := json.Unmarshal(text, &ready); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	c.CA, c.users, c.pids = ready.CA, ready.Kubeconfigs, ready.PIDs
	return nil
}

// URL is the URL of the API server.
func (c *Cluster) URL() string { return "https://" + c.Host.IPv4.String() + ":" + port }

// EtcdURL is the URL of etcd, which only the control plane's host reaches. It has to be asked for before etcd ends for
// the first time, and stays when etcd is started again.
func (c *Cluster) EtcdURL() (string, error) {
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.pids[Etcd]))
	if err != nil {
		return "", fmt.Errorf("read the arguments of etcd: %w", err)
	}
	for arg := range strings.SplitSeq(string(args), "\x00") {
		if url, ok := strings.CutPrefix(arg, "--listen-client-urls="); ok {
			return url, nil
		}
	}
	return "", fmt.Errorf("process %d, etcd, has no argument --listen-client-urls", c.pids[Etcd])
}

// Kubeconfig is the path of a user's kubeconfig, empty for an unknown user, for hosts that can reach the control plane.
func (c *Cluster) Kubeconfig(user string) string { return c.users[user] }

// Config is how a client in this process reaches the API server as a user: its connections start on the control plane's
// host, so that no network leads there. It has no limit of its own, and no timeout.
func (c *Cluster) Config(user string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig(user))
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of %q: %w", user, err)
	}
	config.Dial = c.Host.Dial
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	return config, nil
}

// Client is a client of the API server in this process.
func (c *Cluster) Client(user string) (kubernetes.Interface, error) {
	config, err := c.Config(user)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// Kubectl returns a kubectl command that runs on the control plane's host as Admin.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) *exec.Cmd {
	cmd := c.Host.Command(ctx, os.Getenv(binaryKey), append([]string{"kubectl"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(Admin), "HOME="+filepath.Join(c.dir, "home"))
	return cmd
}

// KubeProxy is the command line of kube-proxy for a node, in a mode, with kube-proxy's defaults. It leaves alone what a
// network namespace may not set.
func (c *Cluster) KubeProxy(node, mode, clusterCIDR string) []string {
	return []string{os.Getenv(binaryKey), "kube-proxy", "--kubeconfig", c.Kubeconfig(Proxy), "--hostname-override", node,
		"--cluster-cidr", clusterCIDR, "--proxy-mode", mode, "--conntrack-max-per-core", "0",
		"--conntrack-tcp-timeout-established", "0s", "--conntrack-tcp-timeout-close-wait", "0s"}
}

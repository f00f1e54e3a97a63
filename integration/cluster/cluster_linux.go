package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"

	"k8s.io/client-go/kubernetes"

	"github.com/portald/portald/integration/topology"
)

// binaryKey is the environment variable that names the binary of integration/kubetest.
const binaryKey = "KUBETEST"

// port is the port of the API server. No other server uses it on the host.
const port = "6443"

// Options configure a control plane.
type Options struct {
	Host  *topology.Host // where it runs: its IPv4 address is the API server's, and with IPv6 Services have both families
	Dir   string         // an empty directory for its files
	Flags []string       // additional flags of "kubetest up", such as "--user=jane=admins" or "--apiserver-arg=--v=4"
}

// Cluster is a running control plane. Its methods are safe for concurrent use.
type Cluster struct {
	Host  *topology.Host
	Admin kubernetes.Interface // a client with all rights
	CA    string               // path of the CA certificate of the API server
	dir   string
	users map[string]string // their kubeconfigs
	pids  map[Program]int   // of the first processes

	cancel context.CancelFunc
	cmd    *exec.Cmd
	said   strings.Builder // on standard error; whole when the process has ended

	mu      sync.Mutex // one line and its answer at a time
	lines   io.WriteCloser
	answers *bufio.Scanner
}

// Start runs a control plane and returns when it is ready: some four seconds, and 0.7 GB of memory until Close or the
// end of ctx. A ClusterIP is from the ranges of topology.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	binary, err := kubetest()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &Cluster{Host: o.Host, dir: o.Dir, cancel: cancel}
	c.cmd = o.Host.Command(ctx, binary, append(flags(o), o.Flags...)...)
	c.cmd.Stderr = &c.said
	if err := c.run(); err != nil {
		return nil, errors.Join(fmt.Errorf("start control plane: %w", err), c.Close())
	}
	return c, nil
}

func flags(o Options) []string {
	ranges := topology.ClusterIPs4
	if o.Host.IPv6.IsValid() {
		ranges += "," + topology.ClusterIPs6
	}
	return []string{
		"up", "--stdin", "--dir=" + o.Dir,
		"--bind-address=" + o.Host.IPv4.String(), "--port=" + port, "--service-cidr=" + ranges,
	}
}

// kubetest finds the binary.
func kubetest() (string, error) {
	path := os.Getenv(binaryKey)
	if path == "" {
		return "", fmt.Errorf("the variable %s names no binary: make test-api does, make kubetest makes bin/kubetest",
			binaryKey)
	}
	return exec.LookPath(path)
}

// run starts the process and waits for its first line.
func (c *Cluster) run() error {
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	c.lines, c.answers = in, bufio.NewScanner(out)
	line, err := c.answer()
	if err != nil {
		return err
	}
	file, ok := strings.CutPrefix(line, "ready ")
	if !ok {
		return fmt.Errorf("kubetest says %q instead of being ready", line)
	}
	if err := c.read(file); err != nil {
		return err
	}
	c.Admin, err = c.Client(Admin)
	return err
}

func (c *Cluster) answer() (string, error) {
	if c.answers.Scan() {
		return c.answers.Text(), nil
	}
	return "", errors.Join(errors.New("kubetest has ended"), c.answers.Err())
}

// Close ends the control plane. If it had ended before, the error contains its output.
func (c *Cluster) Close() error {
	defer c.cancel()
	if c.lines == nil {
		return nil // it never started
	}
	c.lines.Close()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("kubetest: %w\n%s", err, c.said.String())
	}
	return nil
}

package winnode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/integration/wine"
	"github.com/portald/portald/portal/netshtest"
)

// Device is the interface of a node that portald.exe adds addresses to.
const Device = "hns0"

// Node is the system of a node.
type Node struct {
	Netsh    *netshtest.Netsh
	Prefix   wine.Prefix
	programs Programs
	host     *topology.Host
	netsh    net.Listener // of the simulator
	standby  *exec.Cmd    // keeps the system up
	in       io.Closer    // of standby: its end
}

// Install installs the system on a host, in a directory that must not exist, and starts it. After an error nothing of
// it runs.
func (p Programs) Install(ctx context.Context, host *topology.Host, dir string) (*Node, error) {
	n := &Node{Netsh: &netshtest.Netsh{Host: kernel{host}}, programs: p, host: host}
	if err := n.install(ctx, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("install Windows on %s: %w", host.Name, err), n.Close())
	}
	return n, nil
}

func (n *Node) install(ctx context.Context, dir string) error {
	if err := n.device(ctx); err != nil {
		return err
	}
	prefix, err := n.programs.installation.Copy(ctx, dir)
	if err != nil {
		return err
	}
	if n.Prefix, err = prefix.Replace("netsh.exe", n.programs.netsh); err != nil {
		return err
	}
	if err := n.simulate(); err != nil {
		return err
	}
	return n.start()
}

// device adds Device.
func (n *Node) device(ctx context.Context) error {
	for _, args := range []string{
		"add " + Device + " type veth peer name " + Device + "-peer", "set " + Device + " up",
		"set " + Device + "-peer up",
	} {
		out, err := n.host.Command(ctx, "ip", append([]string{"link"}, strings.Fields(args)...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip link %s: %w: %s", args, err, out)
		}
	}
	return nil
}

// simulate serves netsh on the node.
func (n *Node) simulate() (err error) {
	if n.netsh, err = n.host.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	go n.Netsh.Serve(n.netsh)
	at := n.netsh.Addr().String()
	return os.WriteFile(filepath.Join(n.Prefix.System32(), "netsh.simulator"), []byte(at), 0o600)
}

// start starts the system and keeps it up until Close.
func (n *Node) start() error {
	line, err := n.Line(n.programs.netsh, "hold")
	if err != nil {
		return err
	}
	cmd := n.host.Command(context.Background(), line[0], line[1:]...)
	if n.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.standby = cmd
	if up, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(up) != "up" {
		return fmt.Errorf("the system is not up: %q, %w", up, err)
	}
	return nil
}

// Line is the command line of a program built by Go for Windows, on the node.
func (n *Node) Line(exe string, args ...string) ([]string, error) {
	program, err := n.Prefix.Line(exe, args...)
	if err != nil {
		return nil, err
	}
	ours := os.Environ() // which commands have anyway
	env := slices.DeleteFunc(n.Prefix.Environ(), func(pair string) bool { return slices.Contains(ours, pair) })
	return slices.Concat(n.programs.starter, []string{"env"}, env,
		[]string{"INTERFACE_TO_ADD_SERVICE_IP=" + Device}, program), nil
}

// Close ends all that runs on the system.
func (n *Node) Close() (err error) {
	if n.standby != nil {
		n.in.Close()
		_ = n.standby.Wait() // its end is of no interest
		err = n.Prefix.Close(context.Background())
	}
	if n.netsh != nil {
		n.netsh.Close()
	}
	return err
}

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/integration/winnode"
)

// bed is the test bed of one competitor: a network of client, node and pod, servers in the pod, the proxy on the node.
type bed struct {
	competitor
	ctx     context.Context // until close
	cancel  context.CancelFunc
	lab     *lab
	dir     string
	net     *topology.Net
	system  *winnode.Node // of the node; nil: Linux
	servers []*exec.Cmd
	proxy   *process // nil: the kernel alone, or stopped
	flows   int      // number of UDP flows so far

	clientOn string // the CPU that clients run on; none: the kernel places them
}

const (
	pods        = 2
	readyWithin = 30 * time.Second
)

func (b *bed) launch(args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd := b.net.Node.Command(b.ctx, args[0], args[1:]...)
	log, err := os.Create(filepath.Join(b.dir, "stderr"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	b.proxy, err = start(cmd)
	return err
}

// ended returns an error with the proxy's last output if the proxy has ended.
func (b *bed) ended() error {
	if b.proxy == nil || b.proxy.running() {
		return nil
	}
	said, err := os.ReadFile(filepath.Join(b.dir, "stderr"))
	return errors.Join(fmt.Errorf("%s has ended: %s", b.name, said), err)
}

// down stops the proxy, first by SIGTERM, so that it can remove its rules.
func (b *bed) down() {
	if b.proxy != nil {
		b.proxy.stop()
	}
	b.proxy = nil
}

func (b *bed) close() error {
	b.down()
	var err error
	if b.system != nil {
		err = b.system.Close()
	}
	b.cancel()
	for _, s := range b.servers {
		_ = s.Wait() // killed
	}
	err = errors.Join(err, os.RemoveAll(b.dir))
	if b.net != nil {
		err = errors.Join(err, b.net.Close())
	}
	return err
}

// lab keeps each bed from its first use until the end of the run.
type lab struct {
	dir     string
	portald string // path of the program
	self    string // path of this program, which is also the load client and server
	windows winnode.Programs
	beds    map[string]*bed
}

// portald is the path of the program.
func (b *bed) portald() string {
	if b.path != "" {
		return b.path
	}
	return b.lab.portald
}

func (b *bed) adminSocket() string { return filepath.Join(b.dir, "admin.sock") }

func (b *bed) connectionLog() string { return filepath.Join(b.dir, "connections.json") }

// manifest is the path of a file in the directory that portald watches.
func (b *bed) manifest(name string) string { return filepath.Join(b.dir, "manifests", name) }

// targets is a file with the addresses of the additional Services, one per line.
func (b *bed) targets() string { return filepath.Join(b.dir, "targets") }

// pod is a port of the pod behind the service.
func (b *bed) pod(port int) netip.AddrPort {
	return netip.AddrPortFrom(b.net.Pod(0).IPv4, uint16(port))
}

// file writes a file into the bed's directory and returns its path.
func (b *bed) file(name, text string) (string, error) {
	path := filepath.Join(b.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o644)
}

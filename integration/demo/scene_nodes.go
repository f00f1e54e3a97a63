//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/portald/portald/integration/topology"
)

func allNodes() []scene {
	return []scene{{
		title: "Three nodes, one fault, one command",
		about: "Another cluster has three nodes with a pod each. Somebody's rule on node-3 drops what goes to cart-b. " +
			"One command asks all nodes; in a cluster with an API server it is kubectl portald explain shop/cart.",
		play: oneFault,
	}}
}

// fleet is three nodes with a portald and a pod each.
type fleet struct {
	dir     string
	cluster *topology.Cluster
	pods    []*pod
	daemons []*daemon
	sockets []string // NODE=PATH
}

func oneFault(ctx context.Context, s *show) error {
	f := &fleet{dir: filepath.Join(s.dir, "fleet")}
	err := f.play(ctx, s)
	return errors.Join(err, f.close())
}

func (f *fleet) play(ctx context.Context, s *show) error {
	if err := f.setUp(ctx, s.daemon.program); err != nil {
		return err
	}
	broken := f.pods[1]
	drop := f.cluster.Nets[2].Node.Command(ctx, "iptables", "-w", "-I", "OUTPUT", "-d", broken.Host.IPv4.String(), "-j",
		"DROP")
	if out, err := drop.CombinedOutput(); err != nil {
		return fmt.Errorf("drop packets: %w: %s", err, out)
	}
	for _, n := range f.cluster.Nets {
		for range 6 {
			name, err := ask(ctx, n.Client(0).Dial, "tcp", cartIP+":"+httpPort)
			if err != nil {
				return fmt.Errorf("a client of %s: %w", n.Node.Name, err)
			}
			if n == f.cluster.Nets[2] && name == broken.Name {
				return fmt.Errorf("node-3 reached %s, from which it is cut off", name)
			}
		}
	}
	s.line("each of the three nodes has carried six connections, all of which were answered")
	s.line("")
	s.rest(ctx, sceneRest/2)
	sockets := strings.Join(f.sockets, ",")
	s.line("%s portald explain shop/cart:http --socket %s", s.ink.dim("$"), strings.ReplaceAll(sockets, f.dir+"/", ""))
	text, err := f.cluster.Nets[0].Node.Command(ctx, s.daemon.program, "explain", "shop/cart:http", "--socket",
		sockets).Output()
	if err != nil {
		return fmt.Errorf("run portald explain: %w", err)
	}
	return f.check(s, string(text))
}

// check shows the verdicts, and wants those of the fault.
func (f *fleet) check(s *show, text string) error {
	verdicts, _, _ := strings.Cut(text, "\n\nshop/cart:http on ")
	lines := strings.Split(verdicts, "\n")
	s.table(lines)
	if len(lines) < 6 || lines[2] != "node-3" || !strings.Contains(lines[3], f.pods[1].Host.IPv4.String()) ||
		strings.Count(verdicts, "  ✗ ") != 1 {
		return fmt.Errorf("portald explain names another node or rule:\n%s", text)
	}
	s.check("the node and the rule are named; the other nodes have no such rule")
	return nil
}

func (f *fleet) setUp(ctx context.Context, program string) (err error) {
	if f.cluster, err = topology.NewCluster(ctx, 3, topology.Options{Name: "fleet", Pods: 1}); err != nil {
		return err
	}
	shop := &shop{Affinity: "None"}
	for i, n := range f.cluster.Nets {
		p := &pod{Name: "cart-" + string(rune('a'+i)), Host: n.Pod(0)}
		if err := p.start(); err != nil {
			return err
		}
		f.pods = append(f.pods, p)
		shop.with(p)
	}
	manifests := filepath.Join(f.dir, "manifests")
	if err := os.MkdirAll(manifests, 0o755); err != nil {
		return err
	}
	if err := shop.write(filepath.Join(manifests, "shop.yaml")); err != nil {
		return err
	}
	for i, n := range f.cluster.Nets {
		if err := f.start(ctx, program, fmt.Sprint("node-", i+1), n.Node); err != nil {
			return err
		}
	}
	for _, d := range f.daemons {
		if err := d.healthy(ctx); err != nil {
			return fmt.Errorf("start portald: %w%s", err, d.logTail())
		}
	}
	return nil
}

func (f *fleet) start(ctx context.Context, program, name string, node *topology.Host) error {
	socket := filepath.Join(f.dir, name, "admin.sock")
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return err
	}
	d := &daemon{node: node, program: program, dir: filepath.Dir(socket), nth: 1, args: []string{
		"--manifests", filepath.Join(f.dir, "manifests"), "--hostname-override", name, "--admin-socket", socket,
	}}
	if err := d.start(ctx); err != nil {
		return err
	}
	f.daemons, f.sockets = append(f.daemons, d), append(f.sockets, name+"="+socket)
	return nil
}

func (f *fleet) close() error {
	var errs []error
	for _, d := range f.daemons {
		errs = append(errs, d.stop())
	}
	for _, p := range f.pods {
		errs = append(errs, p.stop())
	}
	if f.cluster != nil {
		errs = append(errs, f.cluster.Close())
	}
	return errors.Join(errs...)
}

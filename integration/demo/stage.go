//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/portald/portald/integration/topology"
)

// foreign is a rule on the node that does not belong to portald.
const foreign = `-A INPUT -p tcp -m tcp --dport 22 -m comment --comment "not a rule of portald" -j ACCEPT`

// stage is the network with its pods and portald.
type stage struct {
	net         *topology.Net
	dir         string // on the private tmpfs
	pods        []*pod
	shop        shop
	records     *records
	rulesBefore []string // the node's rules before portald's start
	daemon      *daemon  // the one that serves, nil before the first
	keeper      *process // nil before its scene
	daemons     []*daemon
}

// newStage sets everything up and waits until portald is healthy.
func newStage(ctx context.Context, program string) (*stage, error) {
	s := &stage{shop: shop{Affinity: "None"}}
	if err := s.setUp(ctx, program); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stage) setUp(ctx context.Context, program string) (err error) {
	if s.dir, err = os.MkdirTemp("/run", "demo"); err != nil {
		return err
	}
	if s.net, err = topology.New(ctx, topology.Options{Pods: 3}); err != nil {
		return err
	}
	if err := s.routeOut(); err != nil {
		return fmt.Errorf("add the node's default route: %w", err)
	}
	if err := s.startPods(); err != nil {
		return err
	}
	if err := s.writeManifests(); err != nil {
		return err
	}
	if err := s.addRule(ctx); err != nil {
		return err
	}
	if s.rulesBefore, err = s.rules(ctx); err != nil {
		return err
	}
	log := filepath.Join(s.dir, "connections.log")
	if s.records, err = openRecords(log); err != nil {
		return err
	}
	d := newDaemon(s.net.Node, program, s.dir, log)
	if err := s.start(ctx, d); err != nil {
		return err
	}
	if err := d.healthy(ctx); err != nil {
		return fmt.Errorf("start portald: %w%s", err, d.logTail())
	}
	return nil
}

// start starts a portald, the first or the next.
func (s *stage) start(ctx context.Context, d *daemon) error {
	if err := d.start(ctx); err != nil {
		return err
	}
	s.daemons, s.daemon = append(s.daemons, d), d
	return nil
}

// routeOut gives the node a default route, as every node has one: without a route to the ClusterIP, connections of the
// node itself fail with "network is unreachable" before any rule applies. The gateway is the client, so the node would
// send ICMP redirects; they are off, because they share a rate limit with the ICMP errors that refuse UDP.
func (s *stage) routeOut() error {
	for _, on := range []string{"all", "client0"} {
		if err := s.net.Node.Sysctl("ipv4/conf/"+on+"/send_redirects", "0"); err != nil {
			return err
		}
	}
	return s.net.Node.Do(func() error {
		return netlink.RouteAdd(&netlink.Route{Gw: s.net.Client(0).IPv4.AsSlice()})
	})
}

func (s *stage) startPods() error {
	for i, name := range []string{"cart-a", "cart-b", "cart-c"} {
		p := &pod{Name: name, Host: s.net.Pod(i)}
		if err := p.start(); err != nil {
			return err
		}
		s.pods = append(s.pods, p)
		s.shop.with(p)
	}
	return nil
}

func (s *stage) writeManifests() error {
	file := filepath.Join(s.dir, "manifests", "shop.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return s.shop.write(file)
}

// addRule adds a rule on the node that portald must not touch.
func (s *stage) addRule(ctx context.Context) error {
	restore := s.net.Node.Command(ctx, "iptables-restore", "-w", "--noflush")
	restore.Stdin = strings.NewReader("*filter\n" + foreign + "\nCOMMIT\n")
	if out, err := restore.CombinedOutput(); err != nil {
		return fmt.Errorf("use iptables: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// run runs a command on a host and returns its output.
func (s *stage) run(ctx context.Context, h *topology.Host, name string, args ...string) (string, error) {
	out, err := h.Command(ctx, name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// deafen makes a pod's host drop the packets that match, without a match all, as if it had lost power; hear undoes it.
func (s *stage) deafen(ctx context.Context, p *pod, match ...string) error {
	return s.drop(ctx, p, "-I", match)
}

func (s *stage) hear(ctx context.Context, p *pod, match ...string) error {
	return s.drop(ctx, p, "-D", match)
}

func (s *stage) drop(ctx context.Context, p *pod, change string, match []string) error {
	_, err := s.run(ctx, p.Host, "iptables", slices.Concat([]string{"-w", change, "INPUT", "-j", "DROP"}, match)...)
	return err
}

// rules lists the node's rules.
func (s *stage) rules(ctx context.Context) ([]string, error) {
	text, err := s.run(ctx, s.net.Node, "iptables-save")
	var rules []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "-A ") {
			rules = append(rules, strings.TrimSpace(line))
		}
	}
	return rules, err
}

// logTails returns the last lines of the logs of the keeper, and of the last two portalds.
func (s *stage) logTails() (text string) {
	if s.keeper != nil {
		text = s.keeper.logTail()
	}
	for _, d := range s.daemons[max(0, len(s.daemons)-2):] {
		text += d.logTail()
	}
	return text
}

// close removes what was set up. It works after an incomplete set-up too.
func (s *stage) close() error {
	var errs []error
	for _, d := range slices.Backward(s.daemons) {
		errs = append(errs, d.stop())
	}
	if s.keeper != nil {
		errs = append(errs, s.keeper.stop())
	}
	for _, p := range s.pods {
		errs = append(errs, p.stop())
	}
	if s.records != nil {
		errs = append(errs, s.records.close())
	}
	if s.net != nil {
		errs = append(errs, s.net.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

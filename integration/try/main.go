//go:build linux

// Try shows a first connection through portald: a client, a node and two pods, each in a network namespace that
// vanishes with the program, and the manifest in deploy/examples. It prints each command that it runs. It needs curl,
// iptables, and root or user namespaces.
//
//	go run ./integration/try -portald bin/portald
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/portald/portald/integration/topology"
)

// The Service in the manifest.
const (
	service = "shop/cart"
	url     = "http://10.96.0.10/"
	podPort = "8080"
)

func main() {
	portald := flag.String("portald", "bin/portald", "`path` of the portald program")
	manifest := flag.String("manifest", "deploy/examples/shop.yaml", "`file` with the Service "+service)
	flag.Parse()
	topology.Enter()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := try(ctx, *portald, *manifest)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "try:", err)
		os.Exit(1)
	}
}

func try(ctx context.Context, portald, manifest string) (err error) {
	// On Debian an ordinary user's PATH lacks the directory of iptables. An HTTP proxy cannot be reached from here.
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	os.Setenv("no_proxy", "*")
	if err := topology.Check(); err != nil {
		return fmt.Errorf("%s: run it as root, or on a host that allows unprivileged user namespaces",
			strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	net, err := topology.New(ctx, topology.Options{Pods: 2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	t := &tour{ctx: ctx, net: net, page: &page{out: os.Stdout, ended: make(chan struct{})}, portald: portald,
		pods: map[string]*http.Server{}, slow: make(chan struct{}, 1), seen: make(chan struct{})}
	return t.all(manifest)
}

type tour struct {
	*page
	ctx     context.Context
	net     *topology.Net
	portald string
	pods    map[string]*http.Server // by name
	slow    chan struct{}           // gets a value when a pod has the request that it answers late
	seen    chan struct{}           // closed once it may answer
}

func (t *tour) all(manifest string) error {
	client, node := t.net.Client(0), t.net.Node
	t.say("A client (%s), a node and two pods, each in a network namespace of its own.", client.IPv4)
	if err := t.servePods("cart-a", "cart-b"); err != nil {
		return err
	}
	t.say("\nportald on the node; a manifest takes the place of the API server:")
	daemon, err := t.start(node, t.portald, "--manifests", manifest, "--hostname-override=node-1", "--connection-log=-")
	if err != nil {
		return err
	}
	go func() {
		defer close(t.ended)
		_ = daemon.Wait() // see interrupt
	}()
	defer func() { _ = daemon.Cancel() }() // it has ended, unless something failed
	if err := t.until("Ready: all service ports are served"); err != nil {
		return err
	}
	t.say("\nOne connection. portald writes its record when it ends:")
	first, err := t.run(client, "curl", "-sS", "-m60", url)
	if err := errors.Join(err, t.until("  ok  ")); err != nil {
		return err
	}
	t.say("\nA connection while it is open. The pod answers late:")
	slow, err := t.start(client, "curl", "-sS", "-m60", url+"slow")
	if err != nil {
		return err
	}
	select {
	case <-t.slow:
	case <-time.After(limit):
		return fmt.Errorf("the request has not arrived after %v", limit)
	}
	_, err = t.run(node, t.portald, "conns", "--service", service)
	close(t.seen)
	if err := errors.Join(err, slow.Wait(), t.until("  ok  ")); err != nil {
		return err
	}
	stopped := strings.TrimSpace(strings.TrimPrefix(first, "hello from "))
	t.say("\n%s stops, and the manifest still has it. The client gets its answer; the record says what happened:", stopped)
	_ = t.pods[stopped].Close() // its port refuses connections from now on
	_, err = t.run(client, "curl", "-sS", "-m60", url)
	if err := errors.Join(err, t.until("[tried ", "connection refused")); err != nil {
		return err
	}
	t.say("\nWhat this node does for the Service, and why:")
	if _, err := t.run(node, t.portald, "explain", service); err != nil {
		return err
	}
	return t.interrupt(daemon)
}

func (t *tour) servePods(names ...string) error {
	for i, name := range names {
		pod := t.net.Pod(i)
		listener, err := pod.Listen("tcp", ":"+podPort)
		if err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		server := &http.Server{ReadHeaderTimeout: limit, Handler: http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					t.slow <- struct{}{}
					<-t.seen
				}
				fmt.Fprintln(w, "hello from", name)
			})}
		go func() { _ = server.Serve(listener) }() // until it is closed, or the program ends
		t.pods[name] = server
		t.say("%s answers HTTP at %s:%s.", name, pod.IPv4, podPort)
	}
	return nil
}

// start prints a command and starts it on a host. What it writes is printed as it comes.
func (t *tour) start(on *topology.Host, name string, args ...string) (*exec.Cmd, error) {
	t.say("%s$ %s %s &", on.Name, name, strings.Join(args, " "))
	cmd := on.Command(t.ctx, name, args...)
	cmd.Stdout, cmd.Stderr = t.page, t.page
	return cmd, cmd.Start()
}

// run prints a command, runs it on a host, and prints what it has written.
func (t *tour) run(on *topology.Host, name string, args ...string) (string, error) {
	t.say("%s$ %s %s", on.Name, name, strings.Join(args, " "))
	out, err := on.Command(t.ctx, name, args...).CombinedOutput()
	_, _ = t.Write(out)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}

// interrupt ends portald as Ctrl-C does. That it leaves rules is an error.
func (t *tour) interrupt(daemon *exec.Cmd) error {
	t.say("\nThe end, as by Ctrl-C, which removes portald's rules:")
	t.say("%s$ kill -INT %%1", t.net.Node.Name)
	if err := daemon.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("end portald: %w", err)
	}
	select {
	case <-t.ended:
	case <-time.After(limit):
		return fmt.Errorf("portald has not ended after %v", limit)
	}
	if !daemon.ProcessState.Success() {
		return fmt.Errorf("portald has ended with %v", daemon.ProcessState)
	}
	rules, err := t.net.Node.Command(t.ctx, "iptables-save").CombinedOutput()
	if err != nil || strings.Contains(string(rules), "PORTALD") {
		return fmt.Errorf("portald has left rules: %v\n%s", err, rules)
	}
	t.say("\nThe namespaces vanish; the host is as it was. For servers of your own, deploy/examples/shop.yaml says how.")
	return nil
}

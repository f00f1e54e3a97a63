//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/portald/portald/integration/topology"
)

func newBed(ctx context.Context, c competitor, l *lab) (*bed, error) {
	b := &bed{competitor: c, lab: l, dir: filepath.Join(l.dir, c.name)}
	b.ctx, b.cancel = context.WithCancel(ctx)
	if err := b.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", c.name, err), b.close())
	}
	return b, nil
}

func (b *bed) open() error {
	err := os.Mkdir(b.dir, 0o755)
	if err != nil {
		return err
	}
	if b.net, err = topology.New(b.ctx, topology.Options{Pods: pods, Name: b.name + "-"}); err != nil {
		return err
	}
	if err := b.tune(); err != nil {
		return err
	}
	if b.windows {
		if b.system, err = b.lab.windows.Install(b.ctx, b.net.Node, filepath.Join(b.dir, "prefix")); err != nil {
			return err
		}
	}
	return errors.Join(b.serve("serve", echoPort), b.serve("sink", bulkPort), b.serve("source", sourcePort))
}

// serve runs a server in the pod, and returns when it listens.
func (b *bed) serve(what string, port int) error {
	at := b.pod(port)
	if b.mode != userspace {
		at = netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()) // the pod has many addresses
	}
	cmd := b.net.Pod(0).Command(b.ctx, b.lab.self, "load", what, "-at", at.String())
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	b.servers = append(b.servers, cmd)
	return b.listens(b.pod(port))
}

// listens waits until a server of the pod accepts connections.
func (b *bed) listens(at netip.AddrPort) error {
	var last error
	for end := time.Now().Add(readyWithin); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		c, err := b.net.Node.Dial(b.ctx, "tcp", at.String())
		if last = err; err == nil {
			return c.Close()
		}
	}
	return fmt.Errorf("nothing listens at %s after %v: %w", at, readyWithin, last)
}

// up stops a running proxy, starts the proxy, and returns when the service answers.
func (b *bed) up() error {
	b.down()
	args, err := b.start(b)
	if err != nil {
		return err
	}
	if err := b.launch(args); err != nil {
		return err
	}
	if b.program == "portald" {
		if err := b.healthy(b.ctx); err != nil {
			return err
		}
	}
	return b.await(service(echoPort))
}

// await dials until an exchange succeeds.
func (b *bed) await(to netip.AddrPort) error {
	var last error
	for end := time.Now().Add(readyWithin); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err := errors.Join(b.ctx.Err(), b.ended()); err != nil {
			return err
		}
		if last = b.try(to); last == nil {
			return nil
		}
	}
	return fmt.Errorf("no answer from %s by %s for %v: %w", to, b.name, readyWithin, last)
}

// try makes one request and reads the reply.
func (b *bed) try(to netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(b.ctx, 500*time.Millisecond)
	defer cancel()
	c, err := b.net.Client(0).Dial(ctx, "tcp", to.String())
	if err != nil {
		return err
	}
	defer c.Close()
	return ask(c)
}

func ask(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	b := []byte("?")
	if _, err := c.Write(b); err != nil {
		return err
	}
	_, err := c.Read(b)
	return err
}

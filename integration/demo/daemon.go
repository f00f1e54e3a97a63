//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/topology"
)

// Default addresses of portald's health and metrics servers, on the node.
const (
	healthURL  = "http://127.0.0.1:10256/healthz"
	metricsURL = "http://127.0.0.1:10249/metrics"
)

// udpIdle is a short UDP timeout: the record of a session is written when the session ends.
const udpIdle = "1s"

// daemon is the portald process on the node.
type daemon struct {
	node    *topology.Host
	program string
	shown   string // the command line for display
	log     string // path of its own log
	cmd     *exec.Cmd
	ended   chan struct{}
	err     error // result of Wait, valid once ended is closed
}

// startDaemon starts portald and waits until it is healthy. The process ends by stop, not with ctx.
func startDaemon(ctx context.Context, node *topology.Host, program, dir, records string) (*daemon, error) {
	log, err := os.Create(filepath.Join(dir, "portald.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args := []string{"--manifests", filepath.Join(dir, "manifests"), "--connection-log", records,
		"--udp-timeout", udpIdle}
	d := &daemon{node: node, program: program, log: log.Name(), ended: make(chan struct{})}
	d.shown = filepath.Base(program) + " " + strings.ReplaceAll(strings.Join(args, " "), dir+"/", "")
	d.cmd = node.Command(context.WithoutCancel(ctx), program, args...)
	d.cmd.Stderr = log
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start portald: %w", err)
	}
	go d.wait()
	if err := d.healthy(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start portald: %w%s", err, d.logTail()), d.stop())
	}
	return d, nil
}

func (d *daemon) wait() {
	defer close(d.ended)
	d.err = d.cmd.Wait()
}

// stop sends SIGTERM and returns an error unless portald exits with code 0 in time. It may be called again.
func (d *daemon) stop() error {
	_ = d.cmd.Process.Signal(unix.SIGTERM) // it may have ended
	select {
	case <-d.ended:
	case <-time.After(timeout):
		_ = d.cmd.Cancel()
		<-d.ended
	}
	if d.err != nil {
		return fmt.Errorf("stop portald: %w", d.err)
	}
	return nil
}

func (d *daemon) healthy(ctx context.Context) error {
	return d.until(ctx, "portald to be healthy", func() bool {
		r, err := d.get(ctx, healthURL)
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
}

// until polls done until it returns true, ctx ends, or portald ends.
func (d *daemon) until(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-d.ended:
			return fmt.Errorf("wait for %s: portald has ended", what)
		}
	}
	return nil
}

func (d *daemon) get(ctx context.Context, url string) (*http.Response, error) {
	client := http.Client{Transport: &http.Transport{DialContext: d.node.Dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// apply makes a change, waits until portald has applied it, and returns the time that this took.
func (d *daemon) apply(ctx context.Context, change func() error) (time.Duration, error) {
	before, _ := d.syncs(ctx)
	began := time.Now()
	if err := change(); err != nil {
		return 0, err
	}
	err := d.until(ctx, "portald to apply the manifests", func() bool {
		rounds, pending := d.syncs(ctx)
		return rounds > before && pending == 0
	})
	return time.Since(began), err
}

// syncs reads from the metrics how many syncs of changes are done, and how many changes are pending.
func (d *daemon) syncs(ctx context.Context) (rounds, pending int) {
	r, err := d.get(ctx, metricsURL)
	if err != nil {
		return 0, 0
	}
	defer r.Body.Close()
	for in := bufio.NewScanner(r.Body); in.Scan(); {
		name, value, _ := strings.Cut(in.Text(), " ")
		n, _ := strconv.Atoi(value) // fails only for metrics that are not used here
		switch name {
		case `kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv4"}`:
			rounds = n
		case "kubeproxy_sync_proxy_rules_service_changes_pending", "kubeproxy_sync_proxy_rules_endpoint_changes_pending":
			pending += n
		}
	}
	return rounds, pending
}

// logTail returns the last lines of portald's log, for an error.
func (d *daemon) logTail() string {
	text, err := os.ReadFile(d.log)
	if err != nil || len(text) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "\nportald's log ends:\n  " + strings.Join(lines[max(0, len(lines)-8):], "\n  ")
}

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

// Where portald answers, on the node: its defaults.
const (
	healthURL  = "http://127.0.0.1:10256/healthz"
	metricsURL = "http://127.0.0.1:10249/metrics"
)

// udpIdle ends a UDP session, and so writes its record, sooner than the default: the reader waits for it.
const udpIdle = "1s"

// daemon is portald on the node.
type daemon struct {
	node  *topology.Host
	shown string // the command line, as for a shell
	log   string // path of its own log
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it ended, once it has
}

// startDaemon starts portald and waits until it serves. It does not end with ctx, but by stop.
func startDaemon(ctx context.Context, node *topology.Host, program, dir, records string) (*daemon, error) {
	log, err := os.Create(filepath.Join(dir, "portald.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args := []string{"--manifests", filepath.Join(dir, "manifests"), "--connection-log", records, "--udp-timeout", udpIdle}
	d := &daemon{node: node, log: log.Name(), ended: make(chan struct{})}
	d.shown = filepath.Base(program) + " " + strings.ReplaceAll(strings.Join(args, " "), dir+"/", "")
	d.cmd = node.Command(context.WithoutCancel(ctx), program, args...)
	d.cmd.Stderr = log
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start portald: %w", err)
	}
	go d.wait()
	if err := d.healthy(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start portald: %w%s", err, d.lastWords()), d.stop())
	}
	return d, nil
}

func (d *daemon) wait() {
	defer close(d.ended)
	d.err = d.cmd.Wait()
}

// stop asks portald to end and returns an error unless it does so in peace. It may be called again.
func (d *daemon) stop() error {
	_ = d.cmd.Process.Signal(unix.SIGTERM) // it may have ended
	select {
	case <-d.ended:
	case <-time.After(patience):
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

// until waits for something that portald does.
func (d *daemon) until(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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

// apply makes a change and waits until portald carries traffic accordingly. It returns how long that took.
func (d *daemon) apply(ctx context.Context, change func() error) (time.Duration, error) {
	before, _ := d.syncs(ctx)
	began := time.Now()
	if err := change(); err != nil {
		return 0, err
	}
	err := d.until(ctx, "portald to follow the manifests", func() bool {
		rounds, pending := d.syncs(ctx)
		return rounds > before && pending == 0
	})
	return time.Since(began), err
}

// syncs reads how many rounds of changes were applied, and how many changes wait.
func (d *daemon) syncs(ctx context.Context) (rounds, pending int) {
	r, err := d.get(ctx, metricsURL)
	if err != nil {
		return 0, 0
	}
	defer r.Body.Close()
	for in := bufio.NewScanner(r.Body); in.Scan(); {
		name, value, _ := strings.Cut(in.Text(), " ")
		n, _ := strconv.Atoi(value) // the others are no whole numbers
		switch name {
		case `kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv4"}`:
			rounds = n
		case "kubeproxy_sync_proxy_rules_service_changes_pending", "kubeproxy_sync_proxy_rules_endpoint_changes_pending":
			pending += n
		}
	}
	return rounds, pending
}

// lastWords is the end of portald's own log, for an error.
func (d *daemon) lastWords() string {
	text, err := os.ReadFile(d.log)
	if err != nil || len(text) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return "\nportald's log ends:\n  " + strings.Join(lines[max(0, len(lines)-8):], "\n  ")
}

//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/portald/portald/integration/topology"
)

// Default addresses of portald's health and metrics servers, on the node.
const (
	healthURL  = "http://127.0.0.1:10256/healthz"
	metricsURL = "http://127.0.0.1:10249/metrics"
)

// udpIdle is a short UDP timeout: the record of a session is written when the session ends.
const udpIdle = "1s"

// daemon is a portald process on the node.
type daemon struct {
	*process
	node    *topology.Host
	program string
	args    []string
	dir     string
	nth     int // of those that were started
}

// newDaemon is the first portald, which start starts.
func newDaemon(node *topology.Host, program, dir, records string) *daemon {
	return &daemon{node: node, program: program, dir: dir, nth: 1, args: []string{
		"--manifests", filepath.Join(dir, "manifests"), "--connection-log", records, "--udp-timeout", udpIdle,
	}}
}

// next is another portald with the same command line.
func (d *daemon) next() *daemon {
	n := *d
	n.process, n.nth = nil, d.nth+1
	return &n
}

// start starts portald and does not wait. The process ends by stop or kill, not with ctx.
func (d *daemon) start(ctx context.Context) (err error) {
	log := filepath.Join(d.dir, fmt.Sprintf("portald-%d.log", d.nth))
	name := fmt.Sprintf("portald %d", d.nth)
	d.process, err = startProcess(ctx, d.node, log, name, d.program, d.args...)
	return err
}

// shown is the command line for display.
func (d *daemon) shown() string {
	return filepath.Base(d.program) + " " + strings.ReplaceAll(strings.Join(d.args, " "), d.dir+"/", "")
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
		done, pending := d.syncs(ctx)
		return done > before && pending == 0
	})
	return time.Since(began), err
}

// syncs reads from the metrics how many syncs of changes are done, and how many changes are pending.
func (d *daemon) syncs(ctx context.Context) (done, pending int) {
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
			done = n
		case "kubeproxy_sync_proxy_rules_service_changes_pending", "kubeproxy_sync_proxy_rules_endpoint_changes_pending":
			pending += n
		}
	}
	return done, pending
}

//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Addresses of portald's health and metrics servers, on the node.
const (
	healthAt  = "127.0.0.1:10256"
	metricsAt = "127.0.0.1:10249"
)

// healthy waits until portald has applied all manifests and is healthy.
func (b *bed) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for began := time.Now(); ; time.Sleep(max(2*time.Millisecond, time.Since(began)/100)) { // polling takes CPU time too
		r, err := b.get(ctx, "http://"+healthAt+"/healthz")
		if err == nil {
			r.Body.Close()
		}
		if err == nil && r.StatusCode == http.StatusOK {
			return nil
		}
		if err := errors.Join(ctx.Err(), b.ended()); err != nil {
			return fmt.Errorf("wait for portald to be healthy: %w", err)
		}
	}
}

// get sends a GET request to portald on the node.
func (b *bed) get(ctx context.Context, url string) (*http.Response, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return b.net.Node.Dial(ctx, network, addr)
		}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// metric is the value of a metric of portald; without labels the sum over all series; 0 if it is absent.
func (b *bed) metric(ctx context.Context, name string) (sum float64, err error) {
	r, err := b.get(ctx, "http://"+metricsAt+"/metrics")
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	in := bufio.NewScanner(r.Body)
	for in.Scan() {
		metric, value, _ := strings.Cut(in.Text(), " ")
		plain, _, _ := strings.Cut(metric, "{")
		if metric != name && plain != name {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum += v
	}
	return sum, in.Err()
}

// duration reads the sum and the count of a histogram of syncs. A sync covers both families and is counted in the
// histogram of each, so one is enough.
func (b *bed) duration(ctx context.Context, name string) (time.Duration, int, error) {
	const family = `{ip_family="IPv4"}`
	seconds, err := b.metric(ctx, name+"_sum"+family)
	if err != nil {
		return 0, 0, err
	}
	count, err := b.metric(ctx, name+"_count"+family)
	return time.Duration(seconds * float64(time.Second)), int(count), err
}

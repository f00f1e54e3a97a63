//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/portald/portald/integration/load"
)

func bulkWorkload(name, label string, streams int) workload {
	return workload{
		name: name, label: label, among: everyone,
		figures: []figure{{"gbps", labelled(label, "Gb/s"), 1}, {"cpu", labelled(label, "CPU s/GB"), 3}},
		run: func(ctx context.Context, b *bed, p plan) (figures, error) {
			var r load.BulkResult
			used, err := b.client(ctx, &r, "bulk", "-to", service(bulkPort).String(),
				"-streams", strconv.Itoa(streams), "-for", p.span.String())
			if err == nil && r.Bytes == 0 {
				err = errors.New("nothing arrived")
			}
			return figures{
				"gbps": float64(r.Bytes) * 8 / 1e9 / r.Elapsed.Seconds(),
				"cpu":  used.Seconds() / (float64(r.Bytes) / 1e9),
			}, err
		},
	}
}

// downloadsWorkload receives from the pod; with up it sends at the same time, and both directions count.
func downloadsWorkload(name, label string, streams int, up bool) workload {
	return workload{
		name: name, label: label, among: everyone,
		figures: []figure{{"gbps", labelled(label, "Gb/s"), 1}, {"cpu", labelled(label, "CPU s/GB"), 3}},
		run: func(ctx context.Context, b *bed, p plan) (figures, error) {
			var r load.DownloadsResult
			used, err := b.client(ctx, &r, "downloads", "-to", service(sourcePort).String(),
				"-streams", strconv.Itoa(streams), "-up="+strconv.FormatBool(up), "-for", p.span.String())
			if err == nil && r.Bytes == 0 {
				err = errors.New("nothing arrived")
			}
			gigabytes := float64(r.Bytes+r.Up) / 1e9
			return figures{"gbps": gigabytes * 8 / r.Elapsed.Seconds(), "cpu": used.Seconds() / gigabytes}, err
		},
	}
}

// datagramsWorkload sends datagrams of 1,200 bytes from one port, all in one direction.
func datagramsWorkload(name, label string, c load.Datagrams) workload {
	return workload{
		name: name, label: label, among: withUDP,
		figures: []figure{{"rate", labelled(label, "arrived a second"), 0}, {"cpu", labelled(label, "CPU µs each"), 2},
			{"lost", labelled(label, "lost %"), 1}},
		run: func(ctx context.Context, b *bed, p plan) (figures, error) {
			var r load.DatagramsResult
			used, err := b.client(ctx, &r, "datagrams", "-to", service(bulkPort).String(), "-gso="+strconv.FormatBool(c.GSO),
				"-rate", strconv.Itoa(c.Rate), "-for", p.span.String())
			if err == nil && r.Arrived == 0 {
				err = errors.New("nothing arrived")
			}
			return figures{
				"rate": float64(r.Arrived) / r.Elapsed.Seconds(), "cpu": used.Seconds() * 1e6 / float64(r.Arrived),
				"lost": 100 * float64(r.Sent-r.Arrived) / float64(r.Sent),
			}, err
		},
	}
}

// spent is the CPU time that the proxy used while f ran.
func (b *bed) spent(f func() error) (time.Duration, error) {
	before, err := b.cpu()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := b.cpu()
	return after - before, err
}

func exchangeWorkload(name, label string, among func(competitor) bool, c load.RR) workload {
	return workload{
		name: name, label: label, among: among, figures: exchangeFigures(label),
		run: func(ctx context.Context, b *bed, p plan) (figures, error) {
			return b.exchange(ctx, c, p.span)
		},
	}
}

func (b *bed) exchange(ctx context.Context, c load.RR, span time.Duration) (figures, error) {
	f, _, err := b.exchanges(ctx, "rr", "-proto", c.Proto, "-to", service(echoPort).String(),
		"-conns", strconv.Itoa(c.Conns), "-for", span.String())
	return f, err
}

func churnWorkload(name, label string, among func(competitor) bool, c load.Churn) workload {
	return workload{
		name: name, label: label, among: among, figures: exchangeFigures(label),
		run: func(ctx context.Context, b *bed, p plan) (figures, error) {
			return b.churn(ctx, c, service(echoPort).String(), p.span)
		},
	}
}

func exchangeFigures(label string) []figure {
	return []figure{
		{"rate", labelled(label, "per second"), 0}, {"cpu", labelled(label, "CPU µs each"), 1},
		{"p50", labelled(label, "p50 µs"), 0}, {"p99", labelled(label, "p99 µs"), 0},
		{"failed", labelled(label, "failed %"), 2},
	}
}

// churn opens connections to an address, or to the addresses in an @FILE.
func (b *bed) churn(ctx context.Context, c load.Churn, to string, span time.Duration) (figures, error) {
	var from bytes.Buffer
	for _, a := range c.From {
		fmt.Fprintf(&from, "%s,", a)
	}
	f, r, err := b.exchanges(ctx, "churn", "-proto", c.Proto, "-to", to, "-conns", strconv.Itoa(c.Conns),
		"-from", from.String(), "-at", strconv.Itoa(b.flows), "-for", span.String())
	b.flows += int(r.Exchanges+r.Failed) + c.Conns
	if err == nil && c.Proto == "tcp" && b.records() {
		err = b.recorded()
	}
	return f, err
}

// recorded checks that portald wrote records during the measurement and dropped none. portald writes them in batches.
func (b *bed) recorded() error {
	dropped, err := b.metric(b.ctx, "portald_connection_records_dropped_total")
	if err != nil {
		return err
	}
	if dropped > 0 {
		return fmt.Errorf("portald dropped %g records", dropped)
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if log, err := os.Stat(b.connectionLog()); err != nil || log.Size() > 0 {
			return err
		}
	}
	return errors.New("portald wrote no records")
}

// client runs a load client and returns the CPU time that the proxy used meanwhile.
func (b *bed) client(ctx context.Context, result any, args ...string) (time.Duration, error) {
	return b.spent(func() error { return b.load(ctx, result, args...) })
}

// load runs a load client.
func (b *bed) load(ctx context.Context, result any, args ...string) error {
	args = append([]string{b.lab.self, "load"}, args...)
	if b.clientOn != "" {
		args = append([]string{"taskset", "--cpu-list", b.clientOn}, args...)
	}
	cmd := b.net.Client(0).Command(ctx, args[0], args[1:]...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return clientError(err, &said)
	}
	return json.Unmarshal(out, result)
}

// exchanges runs a load client and returns its results and the CPU time of the proxy as figures.
func (b *bed) exchanges(ctx context.Context, args ...string) (figures, load.Result, error) {
	var r load.Result
	used, err := b.client(ctx, &r, args...)
	if err == nil && r.Exchanges == 0 {
		err = fmt.Errorf("no exchange succeeded, %d failed", r.Failed)
	}
	if err != nil {
		return nil, r, err
	}
	return figures{
		"rate": r.Rate(), "cpu": used.Seconds() * 1e6 / float64(r.Exchanges),
		"p50": float64(r.P50.Nanoseconds()) / 1e3, "p99": float64(r.P99.Nanoseconds()) / 1e3,
		"failed": 100 * float64(r.Failed) / float64(r.Exchanges+r.Failed),
	}, r, nil
}

func clientError(err error, said *bytes.Buffer) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && said.Len() > 0 {
		return errors.New(string(bytes.TrimSpace(said.Bytes())))
	}
	return err
}

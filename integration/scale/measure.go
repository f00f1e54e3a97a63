//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/topology"
)

const (
	changeWithin = time.Minute      // for a change to be seen
	phaseWithin  = 30 * time.Second // for changes without others
	calmWithin   = 30 * time.Second // for a proxy to have done what its start leaves to do
	stopWithin   = 20 * time.Second
)

// run is one proxy under measurement.
type run struct {
	*lab
	node    *topology.Host
	cmd     *exec.Cmd
	ended   chan struct{}
	log     string
	client  *client
	pods    [2]netip.Addr
	current int // the pod that serves now
}

var podNames = [2]string{"A", "B"}

// measure runs a proxy on a node of its own.
func (l *lab) measure(ctx context.Context, p proxy, size int) (one line, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := l.net.Nets[l.used]
	node := fmt.Sprint("node-", l.used)
	l.used++
	if err := l.api.CreateNode(ctx, node, n, nil); err != nil {
		return one, err
	}
	r := &run{lab: l, node: n.Node, log: filepath.Join(l.set.logs, fmt.Sprintf("%s-%d.log", p.name(), size))}
	for i := range r.pods {
		r.pods[i] = n.Pod(i).IPv4
		if err := serve(ctx, n.Pod(i), podNames[i]); err != nil {
			return one, err
		}
	}
	r.client = dialFrom(ctx, n.Client(0), l.stock.live.String())
	if err := l.stock.set(ctx, liveName, r.pods[0]); err != nil {
		return one, err
	}
	one = line{Proxy: p.program, Mode: p.mode, Services: size}
	progress("%s with %d Services", p.name(), size)
	if err := r.start(ctx, l.command(p, node)); err != nil {
		return one, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	return one, r.phases(ctx, &one)
}

func (r *run) start(ctx context.Context, command []string) error {
	log, err := os.Create(r.log)
	if err != nil {
		return err
	}
	defer log.Close()
	r.cmd = r.node.Command(ctx, command[0], command[1:]...)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if err := r.cmd.Start(); err != nil {
		return err
	}
	r.ended = make(chan struct{})
	go func() {
		defer close(r.ended)
		_ = r.cmd.Wait() // told to end
	}()
	return nil
}

func (r *run) stop() error {
	_ = unix.Kill(r.cmd.Process.Pid, unix.SIGTERM) // it may have ended
	select {
	case <-r.ended:
	case <-time.After(stopWithin):
		_ = unix.Kill(-r.cmd.Process.Pid, unix.SIGKILL)
		<-r.ended
	}
	return nil
}

func (r *run) phases(ctx context.Context, one *line) error {
	began := time.Now()
	seen, err := r.await(ctx, r.client.watch(podNames[0], r.set.start))
	if err != nil {
		return err
	}
	if seen.IsZero() {
		one.NotWithin = r.set.start.Seconds()
		return r.closing(one)
	}
	one.Reached = seen.Sub(began).Seconds()
	if err := r.calm(ctx); err != nil {
		return err
	}
	if one.start, err = r.totals(); err != nil {
		return err
	}
	if one.Refused, err = refused(ctx, r.node); err != nil {
		return err
	}
	one.StartCPU, one.StartBytes = one.start.cpu.Seconds(), one.start.bytes
	if one.quiet, err = r.changes(ctx, r.set.quiet, time.Now().Add(phaseWithin)); err != nil {
		return err
	}
	one.Quiet = summarize(one.quiet)
	if err := r.churn(ctx, one); err != nil {
		return err
	}
	if err := r.idle(ctx, one); err != nil {
		return err
	}
	return r.closing(one)
}

// await waits for a client's result, or the end of the proxy.
func (r *run) await(ctx context.Context, seen <-chan time.Time) (time.Time, error) {
	select {
	case at := <-seen:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	case <-r.ended:
		said, err := os.ReadFile(r.log)
		return time.Time{}, errors.Join(fmt.Errorf("the proxy has ended: %s", said[max(0, len(said)-2000):]), err)
	}
}

// calm waits until the proxy uses less than a twentieth of a core for a second.
func (r *run) calm(ctx context.Context) error {
	for end := time.Now().Add(calmWithin); time.Now().Before(end); {
		before, err := cpu(r.cmd.Process.Pid)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		if after, err := cpu(r.cmd.Process.Pid); err != nil || after-before < 50*time.Millisecond {
			return err
		}
	}
	return nil
}

// totals are the resources that a proxy has used so far.
type totals struct {
	cpu   time.Duration
	bytes uint64
}

func (r *run) totals() (t totals, err error) {
	if t.cpu, err = cpu(r.cmd.Process.Pid); err != nil {
		return t, err
	}
	t.bytes, err = received(r.node)
	return t, err
}

// changes leads the Service to the other pod, again and again, and returns when a client saw it: after the API server
// had answered that the change is stored.
func (r *run) changes(ctx context.Context, most int, until time.Time) ([]time.Duration, error) {
	var all []time.Duration
	for len(all) < most && time.Now().Before(until) {
		pause := 50*time.Millisecond + rand.N(100*time.Millisecond) // in step with no period
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
		r.current = 1 - r.current
		seen := r.client.watch(podNames[r.current], changeWithin)
		if err := r.stock.set(ctx, liveName, r.pods[r.current]); err != nil {
			return nil, err
		}
		stored := time.Now()
		at, err := r.await(ctx, seen)
		if err != nil {
			return nil, err
		}
		if at.IsZero() {
			at = stored.Add(changeWithin)
		}
		all = append(all, max(0, at.Sub(stored)))
	}
	return all, nil
}

// churn measures beside other changes.
func (r *run) churn(ctx context.Context, one *line) error {
	within, stop := context.WithCancel(ctx)
	defer stop()
	type outcome struct {
		changes int
		err     error
	}
	done := make(chan outcome, 1)
	began := time.Now()
	go func() {
		n, err := r.stock.churn(within, r.set.rate)
		done <- outcome{n, err}
	}()
	before, err := r.totals()
	if err != nil {
		return err
	}
	if one.busy, err = r.changes(ctx, 1<<30, began.Add(r.set.busy)); err != nil {
		return err
	}
	after, err := r.totals()
	if err != nil {
		return err
	}
	took := time.Since(began)
	stop()
	others := <-done
	one.Busy = summarize(one.busy)
	one.Rate = float64(others.changes) / took.Seconds()
	one.BusyCPU = (after.cpu - before.cpu).Seconds() / took.Seconds()
	one.BusyBytes = float64(after.bytes-before.bytes) / float64(max(1, others.changes+len(one.busy)))
	return others.err
}

// idle measures while nothing changes, once what the changes before leave to do is done.
func (r *run) idle(ctx context.Context, one *line) error {
	if err := r.calm(ctx); err != nil {
		return err
	}
	before, err := cpu(r.cmd.Process.Pid)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := rest(ctx, r.set.idle); err != nil {
		return err
	}
	after, err := cpu(r.cmd.Process.Pid)
	one.IdleCPU = (after - before).Seconds() / time.Since(began).Seconds()
	return err
}

func (r *run) closing(one *line) (err error) {
	one.Memory, one.MostMemory, err = memory(r.cmd.Process.Pid)
	return err
}

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
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/topology"
)

// bed is one proxy on its node, with endpoint pods and a client pod.
type bed struct {
	proxy
	*lab
	node    string // name of the Node object
	dir     string
	net     *topology.Net
	client  *topology.Host
	clients []client
	pods    []*pod
	cmd     *exec.Cmd // the proxy
	ended   chan struct{}
	log     *os.File

	mu      sync.Mutex
	unready map[int]bool // endpoints, as slices tell it
}

const (
	readyWithin = 30 * time.Second
	stopWithin  = 10 * time.Second
	lead        = 500 * time.Millisecond // from the start of clients to their first operation
)

func (l *lab) bed(number int, p proxy) *bed {
	n := l.net.Nets[number]
	b := &bed{proxy: p, lab: l, node: fmt.Sprint("node-", number), net: n, client: n.Pod(l.set.endpoints),
		clients: l.set.clients, unready: map[int]bool{}}
	b.dir = filepath.Join(l.dir, p.name)
	if l.set.logs != "" {
		b.dir = filepath.Join(l.set.logs, p.name)
	}
	for i := range l.set.endpoints {
		dir := filepath.Join(l.dir, fmt.Sprintf("%s-pod%d", p.name, i))
		b.pods = append(b.pods, &pod{host: n.Pod(i), number: i, self: l.self, dir: dir, clients: l.set.clients})
	}
	return b
}

// run starts everything, lets endpoints flap while the clients run, and returns what those met.
func (b *bed) run(ctx context.Context) ([]result, error) {
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	begin := time.Now().Add(lead)
	group, ctx := errgroup.WithContext(ctx)
	for i := range b.pods {
		group.Go(func() error { return b.flap(ctx, i, begin) })
	}
	results := make([]result, len(b.clients))
	for i, c := range b.clients {
		group.Go(func() (err error) {
			results[i], err = b.drive(ctx, c, begin)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	b.stop() // and with it the last records are written
	seen, err := b.readRecords(begin)
	if err != nil {
		return nil, err
	}
	for i, c := range b.clients {
		one := seen[c.recordName()]
		results[i].Connects += one.unreached
		results[i].Retried = one.retried
	}
	return results, nil
}

func (b *bed) open(ctx context.Context) error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	if err := b.api.CreateNode(ctx, b.node, b.net, nil); err != nil {
		return err
	}
	for _, p := range b.pods {
		if err := p.prepare(ctx, b.postgres()); err != nil {
			return err
		}
	}
	for _, p := range b.pods {
		if err := p.serves(ctx, readyWithin); err != nil {
			return fmt.Errorf("pod %d: %w", p.number, err)
		}
	}
	for _, c := range b.clients {
		if err := b.createService(ctx, c); err != nil {
			return err
		}
	}
	if err := b.launch(ctx); err != nil {
		return err
	}
	return b.await(ctx)
}

// launch starts the proxy.
func (b *bed) launch(ctx context.Context) (err error) {
	if b.log, err = os.Create(filepath.Join(b.dir, "log")); err != nil {
		return err
	}
	line := b.line(b)
	b.cmd = b.net.Node.Command(ctx, line[0], line[1:]...)
	b.cmd.Stdout, b.cmd.Stderr = b.log, b.log
	if err := b.cmd.Start(); err != nil {
		b.cmd = nil
		return err
	}
	b.ended = make(chan struct{})
	go func() {
		defer close(b.ended)
		_ = b.cmd.Wait() // told to end
	}()
	return nil
}

// await waits until one operation of each client has gone well.
func (b *bed) await(ctx context.Context) error {
	var failures error
	for end := time.Now().Add(readyWithin); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		select {
		case <-b.ended:
			said, err := os.ReadFile(b.log.Name())
			return errors.Join(fmt.Errorf("the proxy has ended: %s", said), err)
		default:
		}
		if failures = b.tryAll(ctx); failures == nil {
			return nil
		}
	}
	return fmt.Errorf("not ready after %s: %w", readyWithin, errors.Join(failures, ctx.Err()))
}

func (b *bed) tryAll(ctx context.Context) error {
	var errs error
	for _, c := range b.clients {
		within, cancel := context.WithTimeout(ctx, time.Second)
		conn, err := b.client.Dial(within, "tcp", c.service.String())
		cancel()
		if err == nil {
			err = conn.Close()
		}
		errs = errors.Join(errs, err)
	}
	return errs
}

// drive runs a client in the client pod.
func (b *bed) drive(ctx context.Context, c client, begin time.Time) (result, error) {
	set := b.set
	cmd := b.client.Command(ctx, b.self, "client", c.name,
		"-begin", fmt.Sprint(begin.UnixMilli()), "-for", set.span.String(),
		"-rate", fmt.Sprint(set.load.rate), "-timeout", set.load.timeout.String())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	var r result
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("client %s: %w", c.name, err)
	}
	err := json.Unmarshal(out.Bytes(), &r)
	r.Proxy, r.Client = b.name, c.name
	return r, err
}

// flap lets one endpoint fail as the schedule says.
func (b *bed) flap(ctx context.Context, number int, begin time.Time) error {
	for _, e := range b.report.Schedule {
		if e.Endpoint != number {
			continue
		}
		if err := b.fail(ctx, b.pods[number], e, begin); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s: %w", e, err)
		}
	}
	return nil
}

// fail goes through one event.
func (b *bed) fail(ctx context.Context, p *pod, e event, begin time.Time) error {
	end := begin.Add(e.end())
	if err := wait(ctx, begin.Add(e.At)); err != nil {
		return err
	}
	if err := p.begin(ctx, e.Fault); err != nil {
		return err
	}
	told := b.set.readiness > 0 && e.For > b.set.readiness
	if told {
		if err := wait(ctx, begin.Add(e.At+b.set.readiness)); err != nil {
			return err
		}
		if err := b.setReady(ctx, p.number, false); err != nil {
			return err
		}
	}
	if err := wait(ctx, end); err != nil {
		return err
	}
	late, err := p.end(ctx, e.Fault, time.Until(end.Add(settle)))
	if err != nil {
		return err
	}
	if late != nil {
		b.late(fmt.Sprintf("%s, %s: %v", b.name, e, late))
	}
	if !told {
		return nil
	}
	if err := wait(ctx, end.Add(recovery)); err != nil {
		return err
	}
	return b.setReady(ctx, p.number, true)
}

func (b *bed) late(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.report.Late = append(b.report.Late, what)
}

func wait(ctx context.Context, until time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(until)):
		return nil
	}
}

// stop ends the proxy.
func (b *bed) stop() {
	if b.cmd == nil {
		return
	}
	_ = unix.Kill(b.cmd.Process.Pid, unix.SIGTERM) // it may have ended
	select {
	case <-b.ended:
	case <-time.After(stopWithin):
		_ = unix.Kill(-b.cmd.Process.Pid, unix.SIGKILL)
		<-b.ended
	}
	b.cmd = nil
}

// close ends the proxy and the pods.
func (b *bed) close() error {
	b.stop()
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	errs := []error{b.deleteServices(ctx)}
	for _, p := range b.pods {
		errs = append(errs, p.close(), os.RemoveAll(p.dir))
	}
	if b.log != nil {
		errs = append(errs, b.log.Close())
	}
	return errors.Join(errs...)
}

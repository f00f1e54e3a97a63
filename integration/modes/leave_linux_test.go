package modes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// restarts is the number of restarts with each writer.
func restarts() int {
	if bed.InVM {
		return 3
	}
	return 50
}

// seamless returns the flags for restarts of which the test does not wait for drains and writes. That the kernel takes
// over between the two daemons is the default.
func seamless() []string {
	return []string{"--drain-timeout=" + bed.VMTimeout(250*time.Millisecond).String(),
		"--iptables-min-sync-period=0s"}
}

// A daemon in userspace mode restarts many times while clients keep connecting. No new connection fails, and
// connections that the kernel accepted between two daemons survive all later restarts.
func TestRestartsUnderLoad(t *testing.T) {
	for _, m := range bed.Modes() {
		if !m.Kernel {
			t.Run(m.Name, func(t *testing.T) { restartsUnderLoad(bed.New(t), m) })
		}
	}
}

func restartsUnderLoad(b *bed.Bed, m bed.Mode) {
	b.ServePods(0, 1, 2)
	cart := b.Cart(0, 1, 2)
	args := append(append([]string{bed.PodRanges}, seamless()...), m.Args...)
	d := b.Start(cart, args...)

	ctx, stop := context.WithCancel(b.Context())
	var load sync.WaitGroup
	var connected, heard atomic.Int64
	var failed errorList
	for _, to := range []string{bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80), bed.HostPort(b.Node.IPv4.String(),
		bed.NodePort)} {
		for _, from := range []*topology.Host{b.Client, b.Net.Pod(0)} {
			load.Go(func() { failed.add(keepsAsking(b, ctx, from, to, &connected)) })
		}
	}
	load.Go(func() { failed.add(datagrams(b, ctx, bed.HostPort(bed.IP4, 80), &heard)) })
	var kernels []*talk // opened while no daemon ran
	began, times := time.Now(), restarts()
	for n := range times {
		mine := []*talk{converse(b, bed.HostPort(bed.IP4, 80)), converse(b, bed.HostPort(bed.IP6, 80)),
			converse(b, bed.HostPort(b.Node.IPv4.String(), bed.NodePort))}
		for _, talk := range mine {
			talk.goesOn(b)
		}
		d.Signal(syscall.SIGTERM)
		if code := d.Exit(); code != 0 {
			b.Fatalf("stop %d: exit code %d\n%s", n, code, d.Log)
		}
		if len(kernels) < 4 {
			kernels = append(kernels, converse(b, bed.HostPort(bed.IP4, 80)), converse(b, bed.HostPort(bed.IP6, 80)))
		}
		d = b.Launch(nil, append(args, "--manifests", b.Dir+"/"+bed.Manifest)...)
		d.WaitReady()
		for _, talk := range kernels {
			talk.goesOn(b)
		}
		awaitDatagram(b, &heard)
		if err := failed.first(); err != nil {
			b.Fatalf("restart %d: %v", n, err)
		}
	}
	took := time.Since(began)
	stop()
	load.Wait()
	if err := failed.first(); err != nil {
		b.Error(err)
	}
	b.Logf("%d restarts in %v, %d connections, %d datagrams answered", times, took.Round(time.Second), connected.Load(),
		heard.Load())
}

// keepsAsking is connects with a pause after each connection, which leaves CPU time to the daemons. Its error contains
// the record of the failed connection.
func keepsAsking(b *bed.Bed, ctx context.Context, from *topology.Host, to string, connected *atomic.Int64) error {
	for ctx.Err() == nil {
		c, err := bed.Dial(bed.AnswerTimeout, from, "tcp", to)
		if err != nil {
			return fmt.Errorf("connect %d to %s from %s: %w", connected.Load(), to, from.Name, err)
		}
		if a, err := bed.AskTCP(c.(*net.TCPConn)); err != nil {
			return fmt.Errorf("connection %d to %s from %s: %w; recorded: %s", connected.Load(), to, a.Client, err,
				recorded(b, a.Client))
		}
		c.Close()
		connected.Add(1)
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

// recorded returns the records of a client, after a second in which portald can write them.
func recorded(b *bed.Bed, client netip.AddrPort) string {
	time.Sleep(time.Second)
	all, _ := os.ReadFile(b.RecordFile())
	return lines(string(all), client.String())
}

// lines returns the lines of a text that contain a word.
func lines(text, word string) (out string) {
	for line := range strings.Lines(text) {
		if strings.Contains(strings.ToLower(line), word) {
			out += line
		}
	}
	return out
}

// errorList collects errors of goroutines.
type errorList struct {
	mu  sync.Mutex
	all []error
}

func (l *errorList) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.all = append(l.all, err)
	}
}

func (l *errorList) first() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		return nil
	}
	return fmt.Errorf("%d failures, the first: %w", len(l.all), l.all[0])
}

// At the daemon's end the kernel takes over all Services except those whose features it lacks, such as a PROXY header:
// these are rejected until the next start, and logged. With onExit changed to remove, no rule of portald stays.
func TestKernelDoesNotCarryAlike(t *testing.T) {
	for _, m := range bed.Modes() {
		if !m.Kernel {
			t.Run(m.Name, func(t *testing.T) { notAlike(bed.New(t), m) })
		}
	}
}

func notAlike(b *bed.Bed, m bed.Mode) {
	b.ServePods(0)
	cart, header := b.Cart(0), b.Simple("header", "10.96.7.7", 0)
	before := b.Rules()
	config := func(what string) string {
		return b.WriteManifest("config.yaml", "apiVersion: portald.io/v1alpha1\nkind: "+
			"PortaldConfiguration\ndrainTimeout: 150ms\nonExit: "+what+"\n")
	}
	headed := header
	headed.Annotations = []string{"portald.io/client-address: proxy-v2"}
	args := append([]string{"--config", config("kernel")}, m.Args...)
	d := b.Start(cart.String()+headed.String(), args...)
	d.Signal(syscall.SIGTERM)
	if code := d.Exit(); code != 0 {
		b.Fatalf("code %d", code)
	}
	for _, network := range []string{"tcp", "udp"} {
		for from, addresses := range b.Frontends() {
			for _, to := range addresses {
				if strings.HasPrefix(to, "127.") || strings.HasPrefix(to, "[::1]") {
					continue // kernel rules do not serve loopback addresses
				}
				if a, err := bed.Ask(from, network, to); err != nil || a.Pod != "pod0" {
					b.Errorf("after the end, %s %s from %s: %q, %v", network, to, from.Name, a.Pod, err)
				}
			}
		}
	}
	for _, from := range []*topology.Host{b.Client, b.Node, b.Net.Pod(1)} {
		if a, err := bed.Ask(from, "tcp", bed.HostPort("10.96.7.7", 80)); !errors.Is(err, syscall.ECONNREFUSED) {
			b.Errorf("after the end, the Service with a PROXY header, from %s: %q, %v, want a refusal", from.Name, a.Pod, err)
		}
	}
	if n := strings.Count(d.Log.String(), `service="shop/header:http"`); n != 1 || strings.Contains(d.Log.String(),
		`service="shop/cart`) {
		b.Errorf("the log names the rejected Service %d times, want once, and no other Service", n)
	}

	d = b.Start(cart.String()+header.String(), args...)
	if a, err := bed.Ask(b.Client, "tcp", bed.HostPort("10.96.7.7", 80)); err != nil || a.Pod != "pod0" {
		b.Errorf("after the next start: %q, %v", a.Pod, err)
	}
	config("remove")
	b.Eventually("the new configuration to be loaded", func() bool {
		return strings.Contains(d.Log.String(), "onExit changed from kernel to remove")
	})
	d.Signal(syscall.SIGTERM)
	if code := d.Exit(); code != 0 {
		b.Errorf("code %d", code)
	}
	after := b.Rules()
	if !bed.InVM { // which has no nftables
		after += lines(b.Ruleset(), "portald")
	}
	if after != before {
		b.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

package integration

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

	"github.com/portald/portald/integration/topology"
)

// restarts is how often a daemon is stopped and started again, with each writer: a hundred times with both.
func restarts() int {
	if inGuest {
		return 3
	}
	return 50
}

// handsOver are flags of a daemon whose restart nobody notices.
func handsOver() []string {
	return []string{"--on-exit=kernel", "--drain-timeout=" + unhurried(250*time.Millisecond).String(), "--iptables-min-sync-period=0s"}
}

// A daemon in userspace is stopped and started again and again while clients connect all the time, and some connections are
// open each time: no new connection fails. Those that the kernel carries meanwhile live on.
func TestRestartsUnderLoad(t *testing.T) {
	for _, m := range modes() {
		if !m.kernel {
			t.Run(m.name, func(t *testing.T) { newBed(t).restartsUnderLoad(m) })
		}
	}
}

func (b *bed) restartsUnderLoad(m mode) {
	b.servePods(0, 1, 2)
	cart := b.cart(0, 1, 2)
	args := append(append([]string{podRanges}, handsOver()...), m.args...)
	d := b.start(cart, args...)

	ctx, stop := context.WithCancel(b.Context())
	var load sync.WaitGroup
	var asked, heard atomic.Int64
	var failed errorList
	for _, to := range []string{at(ip4, 80), at(ip6, 80), at(b.node.IPv4.String(), nodePort)} {
		for _, from := range []*topology.Host{b.client, b.net.Pod(0)} {
			load.Go(func() { failed.add(b.keepsAsking(ctx, from, to, &asked)) })
		}
	}
	load.Go(func() { failed.add(b.datagrams(ctx, at(ip4, 80), &heard)) })
	var kernels []*talk // begun while no daemon ran
	began, times := time.Now(), restarts()
	for n := range times {
		mine := []*talk{b.talk(at(ip4, 80)), b.talk(at(ip6, 80)), b.talk(at(b.node.IPv4.String(), nodePort))}
		for _, talk := range mine {
			talk.goesOn(b)
		}
		d.signal(syscall.SIGTERM)
		if code := d.exit(); code != 0 {
			b.Fatalf("end %d: code %d\n%s", n, code, d.log)
		}
		if len(kernels) < 4 {
			kernels = append(kernels, b.talk(at(ip4, 80)), b.talk(at(ip6, 80)))
		}
		d = b.launch(nil, append(args, "--manifests", b.dir+"/"+manifest)...)
		d.waitReady()
		for _, talk := range kernels {
			talk.goesOn(b)
		}
		b.hears(&heard)
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
	b.Logf("%d restarts in %v, %d connections, %d datagrams answered", times, took.Round(time.Second), asked.Load(), heard.Load())
}

// keepsAsking is connects at a pace that leaves processors to the daemons, and says how a connection that failed was recorded.
func (b *bed) keepsAsking(ctx context.Context, from *topology.Host, to string, asked *atomic.Int64) error {
	for ctx.Err() == nil {
		c, err := dial(patience, from, "tcp", to)
		if err != nil {
			return fmt.Errorf("connect %d to %s from %s: %w", asked.Load(), to, from.Name, err)
		}
		if a, err := askTCP(c.(*net.TCPConn)); err != nil {
			return fmt.Errorf("connection %d to %s from %s: %w; recorded: %s", asked.Load(), to, a.client, err, b.recorded(a.client))
		}
		c.Close()
		asked.Add(1)
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

// recorded are the lines about a client, once they had time to be written.
func (b *bed) recorded(client netip.AddrPort) string {
	time.Sleep(time.Second)
	all, _ := os.ReadFile(b.recordFile())
	return lines(string(all), client.String())
}

// lines are those that have a word.
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

// What the kernel would carry wrongly is refused until the next start, and named. A daemon that is told so while it runs
// leaves nothing, not even of those before it.
func TestKernelDoesNotCarryAlike(t *testing.T) {
	for _, m := range modes() {
		if !m.kernel {
			t.Run(m.name, func(t *testing.T) { newBed(t).notAlike(m) })
		}
	}
}

func (b *bed) notAlike(m mode) {
	b.servePods(0)
	cart, header := b.cart(0), b.simple("header", "10.96.7.7", 0)
	before := b.rules()
	config := func(what string) string {
		return b.write("config.yaml", "apiVersion: portald.io/v1alpha1\nkind: PortaldConfiguration\ndrainTimeout: 150ms\nonExit: "+what+"\n")
	}
	headed := strings.Replace(header.String(), "  namespace: shop\n", "  namespace: shop\n  annotations: {portald.io/client-address: proxy-v2}\n", 1)
	args := append([]string{"--config", config("kernel")}, m.args...)
	d := b.start(cart.String()+headed, args...)
	d.signal(syscall.SIGTERM)
	if code := d.exit(); code != 0 {
		b.Fatalf("code %d", code)
	}
	for _, network := range []string{"tcp", "udp"} {
		for from, addresses := range b.places() {
			for _, to := range addresses {
				if strings.HasPrefix(to, "127.") || strings.HasPrefix(to, "[::1]") {
					continue // no rule leads there
				}
				if a, err := who(from, network, to); err != nil || a.pod != "pod0" {
					b.Errorf("after the end, %s %s from %s: %q, %v", network, to, from.Name, a.pod, err)
				}
			}
		}
	}
	for _, from := range []*topology.Host{b.client, b.node, b.net.Pod(1)} {
		if a, err := who(from, "tcp", at("10.96.7.7", 80)); !errors.Is(err, syscall.ECONNREFUSED) {
			b.Errorf("after the end, what waits for a header, from %s: %q, %v, want a refusal", from.Name, a.pod, err)
		}
	}
	if n := strings.Count(d.log.String(), `service="shop/header:http"`); n != 1 || strings.Contains(d.log.String(), `service="shop/cart`) {
		b.Errorf("what is refused is named %d times, want once and nothing else", n)
	}

	d = b.start(cart.String()+header.String(), args...)
	if a, err := who(b.client, "tcp", at("10.96.7.7", 80)); err != nil || a.pod != "pod0" {
		b.Errorf("after the next start: %q, %v", a.pod, err)
	}
	config("remove")
	b.eventually("the change to be taken in", func() bool { return strings.Contains(d.log.String(), "onExit changed from kernel to remove") })
	d.signal(syscall.SIGTERM)
	if code := d.exit(); code != 0 {
		b.Errorf("code %d", code)
	}
	after := b.rules()
	if !inGuest { // which has no nftables
		after += lines(b.ruleset(), "portald")
	}
	if after != before {
		b.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

package modes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/integration/topology"
)

// switches is the number of times that a Service changes to the other mode and back.
func switches() int {
	if bed.InVM {
		return 5 // each takes seconds there
	}
	return 50
}

// A Service changes between userspace and kernel mode a hundred times while clients keep connecting. No connection is
// refused, no open connection breaks, and a UDP client with a fixed source port is served by the current mode.
func TestSwitchUnderLoad(t *testing.T) { bed.EachMode(t, switchUnderLoad) }

func switchUnderLoad(b *bed.Bed, m bed.Mode) {
	b.ServePods(0, 1, 2)
	cart, other := b.Cart(0, 1, 2), map[bool]string{true: "userspace", false: "kernel"}[m.Kernel]
	d := b.Start(cart, m.Args...)
	l := putLoad(b)
	for range switches() {
		for _, mode := range []string{other, ""} {
			cart.Mode = mode
			d.Apply(cart)
			l.goesOn()
		}
	}
	b.Logf("%d connections during %d switches", l.end(int64(2*switches())), 2*switches())
}

// load is clients that keep connecting, of each kind of frontend, a UDP client, and connections that stay open.
type load struct {
	*bed.Bed
	clients          sync.WaitGroup
	stop             func()
	connected, heard atomic.Int64
	failed           chan error
	talks            []*talk
}

func putLoad(b *bed.Bed) *load {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	l := &load{Bed: b, stop: stop, failed: make(chan error, 100)}
	for _, to := range []string{bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80), bed.HostPort(b.Node.IPv4.String(),
		bed.NodePort)} {
		for _, from := range []*topology.Host{b.Client, b.Net.Pod(0)} {
			l.clients.Go(func() { l.failed <- connects(ctx, from, to, &l.connected) })
		}
	}
	l.clients.Go(func() { l.failed <- datagrams(b, ctx, bed.HostPort(bed.IP4, 80), &l.heard) })
	l.talks = []*talk{converse(b, bed.HostPort(bed.IP4, 80))}
	return l
}

// goesOn waits for one more datagram, so that a switch is complete for UDP, and has each open connection say something.
func (l *load) goesOn() {
	l.Helper()
	if !hears(&l.heard) {
		l.end(0) // why
		l.FailNow()
	}
	if len(l.talks) < 5 {
		l.talks = append(l.talks, converse(l.Bed, bed.HostPort(bed.IP4, 80)), converse(l.Bed, bed.HostPort(bed.IP6, 80)))
	}
	for _, talk := range l.talks {
		talk.goesOn(l.Bed)
	}
}

// end reports each client that failed, and too few connections.
func (l *load) end(least int64) (connections int64) {
	l.Helper()
	l.stop()
	l.clients.Wait()
	close(l.failed)
	for err := range l.failed {
		if err != nil {
			l.Error(err)
		}
	}
	if connections = l.connected.Load(); connections < least {
		l.Errorf("%d connections, want at least one per switch: %d", connections, least)
	}
	return connections
}

// connects opens one connection after the other and reads the pod's name, until ctx ends.
func connects(ctx context.Context, from *topology.Host, to string, connected *atomic.Int64) error {
	for ctx.Err() == nil {
		if _, err := bed.AskWithin(bed.AnswerTimeout, from, "tcp", to); err != nil {
			return fmt.Errorf("connection %d to %s from %s: %w", connected.Load(), to, from.Name, err)
		}
		connected.Add(1)
	}
	return nil
}

// datagrams sends numbered requests from one source port, one at a time, and counts what comes back. One can be lost
// between the change of rules and the deletion of the old conntrack entry; the next one must come back, be it late.
func datagrams(b *bed.Bed, ctx context.Context, to string, heard *atomic.Int64) error {
	c, err := bed.Dial(bed.AnswerTimeout, b.Client, "udp", to)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Time{})
	q := &sequence{Conn: c}
	failed := make(chan error, 1)
	go func() { // until the connection is closed
		for {
			if err := q.receive(func() { heard.Add(1) }); !errors.Is(err, syscall.ECONNREFUSED) {
				failed <- err
				return
			}
		}
	}()
	for n := 0; ctx.Err() == nil; n++ {
		if err := q.send(); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
		for sent := time.Now(); !q.isBack(n) && time.Since(sent) < bed.VMTimeout(500*time.Millisecond); {
			time.Sleep(2 * time.Millisecond)
		}
		select {
		case err := <-failed:
			return err
		default:
		}
	}
	if !bed.Within(bed.AnswerTimeout, func() bool { return q.lostInARow() < 2 }) {
		return fmt.Errorf("%d datagrams in a row of %d did not come back", q.lostInARow(), q.sent)
	}
	return nil
}

// awaitDatagram waits for one more answer, so that each switch is complete for UDP before the next one.
func awaitDatagram(b *bed.Bed, heard *atomic.Int64) {
	b.Helper()
	if !hears(heard) {
		b.Fatal("datagrams are no longer answered")
	}
}

// hears tells whether another datagram is answered.
func hears(heard *atomic.Int64) bool {
	before := heard.Load()
	return bed.Within(bed.Patience, func() bool { return heard.Load() > before })
}

// talk is a connection that stays open.
type talk struct {
	net.Conn
	lines *bufio.Reader
	sent  int
}

func converse(b *bed.Bed, to string) *talk {
	b.Helper()
	c, err := bed.Dial(bed.AnswerTimeout, b.Client, "tcp", to)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	t := &talk{Conn: c, lines: bufio.NewReader(c)}
	if _, err := t.lines.ReadString('\n'); err != nil {
		b.Fatal(err)
	}
	return t
}

// goesOn sends one more line and reads its echo.
func (t *talk) goesOn(b *bed.Bed) {
	b.Helper()
	t.sent++
	line := fmt.Sprintf("line %d\n", t.sent)
	_ = t.SetDeadline(time.Now().Add(bed.AnswerTimeout))
	if _, err := io.WriteString(t, line); err != nil {
		b.Fatalf("connection %s: %v", t.LocalAddr(), err)
	}
	if got, err := t.lines.ReadString('\n'); err != nil || got != line {
		b.Fatalf("connection %s, line %d: %q, %v", t.LocalAddr(), t.sent, got, err)
	}
}

// The mode annotation overrides the daemon's mode. Connections have records in userspace mode and none in kernel mode.
func TestModeOfAService(t *testing.T) {
	bed.EachMode(t, func(b *bed.Bed, m bed.Mode) {
		b.ServePods(0)
		cart := b.Cart(0)
		d := b.Start(cart, m.Args...)
		for _, c := range []struct {
			mode    string
			records bool
		}{{"", !m.Kernel}, {"kernel", false}, {"userspace", true}, {"sideways", !m.Kernel}} {
			if cart.Mode = c.mode; c.mode != "" {
				d.Apply(cart)
			}
			a, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP4, 80))
			if err != nil {
				b.Fatalf("mode %q: %v", c.mode, err)
			}
			wait := time.Second // for what is not to come
			if c.records {
				wait = bed.Patience
			}
			recorded := bed.Within(wait, func() bool {
				for _, r := range d.Records() {
					if r.Client == a.Client.String() {
						return true
					}
				}
				return false
			})
			if recorded != c.records {
				b.Errorf("mode %q: a record: %t", c.mode, recorded)
			}
		}
		if log := d.Log.String(); !strings.Contains(log, "sideways") {
			b.Error("the log does not report the unknown mode")
		}
	})
}

// In a kernel mode the rules stay when the daemon ends, and Services in userspace mode move to the kernel as well. Open
// connections survive a restart in another kernel mode, after which only that mode's rules exist.
func TestModeOfTheDaemonChanges(t *testing.T) {
	b := bed.New(t, "nft")
	b.ServePods(0, 1)
	cart, flipped := b.Cart(0, 1), b.Cart(0)
	flipped.Name, flipped.Mode = "flipped", "userspace"
	flipped.IPs, flipped.Ports = []string{"10.96.0.11"}, []bed.Port{bed.NewPort("http", "TCP", 80, 0, bed.PodPort)}
	all := cart.String() + flipped.String()
	served := func(when string) {
		b.Helper()
		for _, to := range []string{bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80), bed.HostPort("10.96.0.11", 80)} {
			if _, err := bed.Ask(b.Client, "tcp", to); err != nil {
				b.Errorf("%s, %s: %v", when, to, err)
			}
		}
	}
	kernel := bed.Modes()[2:]
	before := b.Rules()
	var open *talk
	for _, m := range []bed.Mode{kernel[0], kernel[1], kernel[0]} {
		d := b.Start(all, m.Args...)
		if open == nil {
			open = converse(b, bed.HostPort(bed.IP4, 80))
		}
		open.goesOn(b)
		served("in mode " + m.Name)
		d.Eventually("the rules of the other mode to go", func() bool {
			rules := b.Ruleset()
			return strings.Contains(rules, "PORTALD-SVC-") == (m.Name == "iptables") &&
				strings.Contains(rules, "table ip portald") == (m.Name == "nftables")
		})
		d.Signal(syscall.SIGTERM)
		if code := d.Exit(); code != 0 {
			b.Fatalf("portald ended with code %d", code)
		}
		open.goesOn(b)
		served("after mode " + m.Name)
	}
	b.On(b.Node, bed.Portald, "cleanup")
	if after := b.Rules(); after != before || strings.Contains(b.Ruleset(), "portald") {
		b.Errorf("cleanup leaves\n%s\n%s", after, b.Ruleset())
	}
}

package integration

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/topology"
)

// switches is how often a Service is flipped to the other mode and back.
func switches() int {
	if inGuest {
		return 5 // each takes seconds there
	}
	return 50
}

// A Service goes from one mode to the other and back, a hundred times, while clients connect all the time: none is refused,
// no open connection breaks, and a UDP client that keeps its port is served by the mode of the moment.
func TestSwitchUnderLoad(t *testing.T) { eachMode(t, (*bed).switchUnderLoad) }

func (b *bed) switchUnderLoad(m mode) {
	b.servePods(0, 1, 2)
	cart, other := b.cart(0, 1, 2), map[bool]string{true: "userspace", false: "kernel"}[m.kernel]
	d := b.start(cart, m.args...)

	ctx, stop := context.WithCancel(b.Context())
	var load sync.WaitGroup
	var asked, heard atomic.Int64
	failed := make(chan error, 100)
	for _, to := range []string{at(ip4, 80), at(ip6, 80), at(b.node.IPv4.String(), nodePort)} {
		for _, from := range []*topology.Host{b.client, b.net.Pod(0)} {
			load.Go(func() { failed <- connects(ctx, from, to, &asked) })
		}
	}
	load.Go(func() { failed <- b.datagrams(ctx, at(ip4, 80), &heard) })
	talks := []*talk{b.talk(at(ip4, 80))}

	for range switches() {
		for _, mode := range []string{other, ""} {
			cart.mode = mode
			d.apply(cart)
			b.hears(&heard)
			if len(talks) < 5 {
				talks = append(talks, b.talk(at(ip4, 80)), b.talk(at(ip6, 80)))
			}
			for _, talk := range talks {
				talk.goesOn(b)
			}
		}
	}
	stop()
	load.Wait()
	for range cap(failed) {
		select {
		case err := <-failed:
			if err != nil {
				b.Error(err)
			}
		default:
		}
	}
	b.Logf("%d connections over %d flips", asked.Load(), 2*switches())
	if asked.Load() < int64(2*switches()) {
		b.Errorf("only %d connections in all that time", asked.Load())
	}
}

// connects asks which pod serves, one connection after the other, until ctx ends.
func connects(ctx context.Context, from *topology.Host, to string, asked *atomic.Int64) error {
	for ctx.Err() == nil {
		if _, err := whoWithin(patience, from, "tcp", to); err != nil {
			return fmt.Errorf("connection %d to %s from %s: %w", asked.Load(), to, from.Name, err)
		}
		asked.Add(1)
	}
	return nil
}

// lost is how long a datagram's answer may take. Between the new rules and the end of a flow that they would not make any
// more a datagram may fall; the next must not.
const lost = 500 * time.Millisecond

// datagrams asks from one port, over and over, and counts the answers: no two datagrams in a row stay without.
func (b *bed) datagrams(ctx context.Context, to string, heard *atomic.Int64) error {
	c, err := dial(patience, b.client, "udp", to)
	if err != nil {
		return err
	}
	defer c.Close()
	missed, buf := 0, make([]byte, 100)
	for n := 0; ctx.Err() == nil; n++ {
		_ = c.SetDeadline(time.Now().Add(unhurried(lost)))
		if _, err = io.WriteString(c, whoAreYou); err == nil {
			_, err = c.Read(buf)
		}
		if err == nil {
			missed = 0
			heard.Add(1)
		} else if missed++; missed > 1 {
			return fmt.Errorf("datagram %d, and the one before it: %w", n, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

// hears waits for one more answer, so that each flip is over for UDP too when the next comes.
func (b *bed) hears(heard *atomic.Int64) {
	b.Helper()
	for before, began := heard.Load(), time.Now(); heard.Load() == before; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			b.Fatal("no datagram is answered any more")
		}
	}
}

// talk is a connection that stays open.
type talk struct {
	net.Conn
	lines *bufio.Reader
	said  int
}

func (b *bed) talk(to string) *talk {
	b.Helper()
	c, err := dial(patience, b.client, "tcp", to)
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

// goesOn says something and hears it back.
func (t *talk) goesOn(b *bed) {
	b.Helper()
	t.said++
	line := fmt.Sprintf("line %d\n", t.said)
	_ = t.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(t, line); err != nil {
		b.Fatalf("connection %s: %v", t.LocalAddr(), err)
	}
	if got, err := t.lines.ReadString('\n'); err != nil || got != line {
		b.Fatalf("connection %s, line %d: %q, %v", t.LocalAddr(), t.said, got, err)
	}
}

// The Services that say so are carried by the other mode, and records tell which are carried in userspace.
func TestModeOfAService(t *testing.T) {
	eachMode(t, func(b *bed, m mode) {
		b.servePods(0)
		cart := b.cart(0)
		d := b.start(cart, m.args...)
		for _, c := range []struct {
			mode    string
			records bool
		}{{"", !m.kernel}, {"kernel", false}, {"userspace", true}, {"sideways", !m.kernel}} {
			if cart.mode = c.mode; c.mode != "" {
				d.apply(cart)
			}
			a, err := who(b.client, "tcp", at(ip4, 80))
			if err != nil {
				b.Fatalf("mode %q: %v", c.mode, err)
			}
			recorded := within(time.Second, func() bool {
				for _, r := range d.records() {
					if r.Client == a.client.String() {
						return true
					}
				}
				return false
			})
			if recorded != c.records {
				b.Errorf("mode %q: a record: %t", c.mode, recorded)
			}
		}
		if said := d.log.String(); !strings.Contains(said, "sideways") {
			b.Error("nothing is said of a mode that there is not")
		}
	})
}

// In a kernel mode the rules stay when the daemon ends, those of Services in userspace led to the kernel meanwhile, and
// connections live through a restart in another kernel mode, whose rules alone are left after it.
func TestModeOfTheDaemonChanges(t *testing.T) {
	b := newBed(t, "nft")
	b.servePods(0, 1)
	cart, flipped := b.cart(0, 1), b.cart(0)
	flipped.name, flipped.mode = "flipped", "userspace"
	flipped.ips, flipped.ports = []string{"10.96.0.11"}, []port{{"http", "TCP", 80, 0, podPort}}
	all := cart.String() + flipped.String()
	served := func(when string) {
		b.Helper()
		for _, to := range []string{at(ip4, 80), at(ip6, 80), at("10.96.0.11", 80)} {
			if _, err := who(b.client, "tcp", to); err != nil {
				b.Errorf("%s, %s: %v", when, to, err)
			}
		}
	}
	kernel := modes()[2:]
	before := b.rules()
	var open *talk
	for _, m := range []mode{kernel[0], kernel[1], kernel[0]} {
		d := b.start(all, m.args...)
		if open == nil {
			open = b.talk(at(ip4, 80))
		}
		open.goesOn(b)
		served("in mode " + m.name)
		d.eventually("the rules of the other mode to go", func() bool {
			rules := b.ruleset()
			return strings.Contains(rules, "PORTALD-SVC-") == (m.name == "iptables") &&
				strings.Contains(rules, "table ip portald") == (m.name == "nftables")
		})
		d.signal(syscall.SIGTERM)
		if code := d.exit(); code != 0 {
			b.Fatalf("portald ended with code %d", code)
		}
		open.goesOn(b)
		served("after mode " + m.name)
	}
	b.on(b.node, portald, "cleanup")
	if after := b.rules(); after != before || strings.Contains(b.ruleset(), "portald") {
		b.Errorf("cleanup leaves\n%s\n%s", after, b.ruleset())
	}
}

// ruleset is all that nftables, and iptables by it, hold on the node.
func (b *bed) ruleset() string {
	b.Helper()
	return b.on(b.node, "nft", "list", "ruleset")
}

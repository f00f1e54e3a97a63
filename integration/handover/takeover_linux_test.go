package handover

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
)

// A second portald takes over from the first, which ends, and an open connection goes on.
func TestTakeOver(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	first := b.Start(b.Cart(0))
	c, r, a := b.Open(bed.HostPort(bed.IP4, 80))
	before := b.Rules()
	second := first.Succeed()
	if code := first.Exit(); code != 0 {
		t.Errorf("the first ended with code %d", code)
	}
	if err := bed.Echoes(c, r); err != nil {
		t.Errorf("the open connection: %v", err)
	}
	second.WaitReady()
	if after := b.Rules(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	_ = c.CloseWrite()
	if r := second.RecordOf(a); r.Outcome != "ok" || r.BytesFromEndpoint == 0 {
		t.Errorf("recorded as %s", r)
	}
	if n := second.Metric(`portald_inherited_connections_total{fate="live",from="predecessor"}`); n != 1 {
		t.Errorf("%v connections are counted, want 1", n)
	}
	if log := second.Log.String(); !strings.Contains(log, "The predecessor's rules are up to date") {
		t.Errorf("the second wrote rules:\n%s", log)
	}
}

// Of daemons that are started at once one begins, and the others take over from it, one after another: in the end one
// is left, with its rules alone.
func TestStartedAtOnce(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	first := b.Start(b.Cart(0), "--on-exit=remove")
	alone := b.Rules()
	if code := first.Stop(); code != 0 {
		t.Fatalf("portald ended with code %d", code)
	}
	for range 3 {
		var all []*bed.Daemon
		for range 4 {
			all = append(all, first.Succeed())
		}
		left := 0
		b.Eventually("all but one to have ended", func() bool {
			left = 0
			for _, d := range all {
				select {
				case <-d.Ended:
				default:
					left++
				}
			}
			return left == 1
		})
		b.Eventually("one to have begun, and the others to say that they took over", func() bool {
			starting := 0
			for _, d := range all {
				if !strings.Contains(d.Log.String(), "Took over from") {
					starting++
				}
			}
			return starting == 1
		})
		b.ServedBy(bed.IP4, bed.PodName(0))
		if rules := b.Rules(); rules != alone {
			t.Errorf("of one daemon:\n%s\nof several:\n%s", alone, rules)
		}
		for _, d := range all {
			select {
			case <-d.Ended:
			default:
				if code := d.Stop(); code != 0 {
					t.Errorf("portald ended with code %d", code)
				}
			}
		}
	}
}

// A Service that comes back to userspace while a successor takes over has a listener in both for a while: whoever
// accepts a connection, it goes on.
func TestModeChangesDuringTakeOver(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	cart := b.Cart(0)
	first := b.Start(cart, "--drain-timeout=1ms", bed.PodRanges)
	cart.Mode = "kernel"
	first.Apply(cart) // the listener stays open for a while
	second := first.Succeed()
	b.Eventually("the successor to be ready", func() bool { return strings.Contains(second.Log.String(), "Ready") })
	cart.Mode = ""
	second.Apply(cart)
	ended := func() bool {
		select {
		case <-first.Ended:
			return true
		default:
			return false
		}
	}
	var opened, failed atomic.Int64
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for !ended() {
				c, err := bed.Dial(bed.AnswerTimeout, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
				if err != nil {
					t.Error(err)
					return
				}
				opened.Add(1)
				clients.Go(func() {
					defer c.Close()
					r := bufio.NewReader(c)
					_, err := r.ReadString('\n')
					for over := false; err == nil && !over; time.Sleep(10 * time.Millisecond) {
						over = ended()
						err = bed.Echoes(c, r)
					}
					if err != nil && failed.Add(1) == 1 {
						t.Errorf("connection %s: %v", c.LocalAddr(), err)
					}
				})
			}
		})
	}
	clients.Wait()
	t.Logf("%d connections, %d failed", opened.Load(), failed.Load())
	if !strings.Contains(first.Log.String(), ": 0 connections are left here") {
		t.Error(first.Log)
	}
}

// A successor knows what changed before it began, and from whom it took over; what both saw is told once.
func TestChangesAreInherited(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0, 1)
	first := b.Start(b.Cart(0, 1))
	first.Apply(b.Cart(0))
	second := first.Succeed()
	second.WaitReady()
	<-first.Ended
	told := func() (all []string) {
		err := second.Admin().Changes(b.Context(), adminsocket.ChangeQuery{Last: 100}, func(l *changes.Line) error {
			all = append(all, l.Text)
			return nil
		}, nil)
		b.Must(err)
		return all
	}
	const removed = "shop/cart:http: endpoint 10.244.0.3:8080 (pod shop/pod1) removed, was ready"
	var all []string
	b.Eventually("it to say that it took over", func() bool {
		all = told()
		return strings.Contains(strings.Join(all, "\n"), "took over from portald ")
	})
	at := 0
	for _, text := range []string{
		fmt.Sprintf("(process %d) started", first.Cmd.Process.Pid), removed,
		fmt.Sprintf("(process %d) started", second.Cmd.Process.Pid),
		fmt.Sprintf("(process %d): 0 connections, 0 UDP sessions", first.Cmd.Process.Pid),
	} {
		i := slices.IndexFunc(all[at:], func(line string) bool { return strings.HasSuffix(line, text) })
		if i < 0 {
			t.Fatalf("%q is not told, or out of order:\n%s", text, strings.Join(all, "\n"))
		}
		at += i + 1
	}
	if log := second.Log.String(); strings.Contains(log, removed) {
		t.Errorf("it has logged what the first has:\n%s", log)
	}
	second.Apply(b.Cart(0, 1))
	added := strings.Replace(removed, "removed, was ready", "added, ready", 1)
	b.Eventually("the next change", func() bool { return slices.Contains(told(), added) })
	if n := strings.Count(strings.Join(told(), "\n"), removed); n != 1 {
		t.Errorf("told %d times: %s", n, removed)
	}
}

package handover

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

// keeper starts portald keep where the next daemon of the bed finds it.
func keeper(b *bed.Bed) (k *bed.Daemon, socket string) {
	b.Helper()
	socket = filepath.Join(b.ShortDir(), "keep.sock")
	k = b.Exec(b.Line("keep", "--socket", socket)...)
	b.Eventually("the keeper", func() bool { return strings.Contains(k.Log.String(), "keeps at") })
	return k, socket
}

// kill kills a daemon, and starts the next.
func kill(d *bed.Daemon) *bed.Daemon {
	d.Helper()
	d.Signal(syscall.SIGKILL)
	<-d.Ended
	return d.Succeed()
}

// A portald that is killed ends no connection that is older than two seconds: the next one goes on with it.
func TestCrash(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	_, socket := keeper(b)
	first := b.Start(b.Cart(0), "--keep-socket="+socket)
	c, r, a := b.Open(bed.HostPort(bed.IP4, 80))
	time.Sleep(2 * time.Second)
	second := kill(first)
	if err := bed.Echoes(c, r); err != nil {
		t.Errorf("the open connection: %v\n%s", err, second.Log.String())
	}
	second.WaitReady()
	_ = c.CloseWrite()
	if r := second.RecordOf(a); r.Outcome != "ok" || r.BytesFromEndpoint == 0 {
		t.Errorf("recorded as %s", r)
	}
}

// Clients that come while no portald lives wait, also those of a Service that was made after the keeper had all others.
func TestClientsWaitAfterACrash(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	_, socket := keeper(b)
	cart, late := b.Cart(0), b.Simple("late", "10.96.0.77", 0)
	first := b.Start(cart, "--keep-socket="+socket)
	first.Apply(cart.String() + late.String())
	time.Sleep(time.Second) // far more than the keeper is told later
	first.Signal(syscall.SIGKILL)
	<-first.Ended
	answers := make(chan error)
	clients := []string{bed.HostPort(bed.IP4, 80), bed.HostPort(bed.IP6, 80), bed.HostPort("10.96.0.77", 80)}
	for _, to := range clients {
		go func() {
			a, err := bed.AskWithin(20*time.Second, b.Client, "tcp", to)
			if err == nil && a.Pod != bed.PodName(0) {
				err = fmt.Errorf("%q answers", a.Pod)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", to, err)
			}
			answers <- err
		}()
	}
	select {
	case err := <-answers:
		t.Errorf("a client did not wait: %v", err)
		clients = clients[1:]
	case <-time.After(500 * time.Millisecond):
	}
	second := first.Succeed()
	for range clients {
		if err := <-answers; err != nil {
			t.Errorf("%v\n%s", err, second.Log.String())
		}
	}
	second.WaitReady()
}

// kills is how often TestCrashes kills; PORTALD_KILLS sets it.
func kills(t *testing.T) int {
	if text := os.Getenv("PORTALD_KILLS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 3
}

// Killed at any moment, under load of every kind: no byte is missing or there twice, and hardly a connection ends.
func TestCrashes(t *testing.T) {
	b := bed.New(t)
	serveEcho(b, 0)
	_, socket := keeper(b)
	d := b.Start(b.Cart(0), "--keep-socket="+socket)
	at := bed.HostPort(bed.IP4, 80)
	var all streams
	all.open(b, at, "bulk", 8, all.bulk)
	all.open(b, at, "slow", 6, all.slow)
	all.open(b, at, "asking", 40, all.asks)
	all.open(b, at, "idle", 20, all.idle)
	time.Sleep(2 * time.Second)
	n := kills(t)
	for range n {
		time.Sleep(time.Duration(rand.IntN(50_000)) * time.Microsecond)
		d = kill(d)
		d.WaitReady()
		t.Log(lineWith(d.Log.String(), "of the portald that died go on"))
		time.Sleep(1700 * time.Millisecond) // until all are kept again
	}
	broken := all.stop()
	for _, s := range broken {
		t.Logf("%s: %v", s.kind, s.err)
		if !strings.Contains(s.err.Error(), "reset") && !strings.Contains(s.err.Error(), "broken pipe") {
			t.Errorf("a stream of kind %s is corrupt: %v", s.kind, s.err)
		}
	}
	if most := len(all.all) * n / 100; len(broken) > max(most, 1) {
		t.Errorf("%d of %d connections broke by %d kills", len(broken), len(all.all), n)
	}
}

func lineWith(log, what string) string {
	for line := range strings.Lines(log) {
		if strings.Contains(line, what) {
			return line
		}
	}
	return "no line with " + what
}

// A keeper that dies takes nothing of what is open with it: the next one gets all of it, although nothing happens on
// the node that portald would tell it of.
func TestKeeperDies(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	k, socket := keeper(b)
	first := b.Start(b.Cart(0), "--keep-socket="+socket)
	c, r, _ := b.Open(bed.HostPort(bed.IP4, 80))
	time.Sleep(2 * time.Second)
	k.Signal(syscall.SIGKILL)
	<-k.Ended
	b.Eventually("portald to miss its keeper", func() bool {
		return strings.Contains(first.Log.String(), "The keeper is gone")
	})
	if err := bed.Echoes(c, r); err != nil {
		t.Errorf("without a keeper: %v", err)
	}
	b.Exec(b.Line("keep", "--socket", socket)...)
	b.Eventually("portald to find the next", func() bool {
		return strings.Contains(first.Log.String(), "a keeper again")
	})
	time.Sleep(time.Second)
	second := kill(first)
	if err := bed.Echoes(c, r); err != nil {
		t.Errorf("after a crash: %v\n%s", err, second.Log.String())
	}
	second.WaitReady()
}

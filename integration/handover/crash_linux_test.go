package handover

import (
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

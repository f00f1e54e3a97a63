package daemon

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
)

// After Ctrl-C, or SIGTERM with onExit: remove, portald removes its portals, serves open connections to their end, and
// exits. No other rules on the node use conntrack: the open connection depends on portald's rules until it ends.
func TestEndDrains(t *testing.T) {
	t.Run("Ctrl-C", func(t *testing.T) { endDrains(bed.New(t), syscall.SIGINT) })
	t.Run("SIGTERM", func(t *testing.T) { endDrains(bed.New(t), syscall.SIGTERM, "--on-exit=remove") })
}

func endDrains(b *bed.Bed, by syscall.Signal, args ...string) {
	b.ServePods(0)
	before := b.Rules()
	d := b.Start(b.Cart(0), append(args, "--drain-timeout=20s")...)
	c, r, a := b.Open(bed.HostPort(bed.IP4, 80))
	d.Signal(by)
	b.Eventually("portals to go", func() bool { return !strings.Contains(b.Rules(), "--to-ports") })
	if code, body, _ := d.Get("127.0.0.1:10256", "/healthz"); code != http.StatusServiceUnavailable ||
		!strings.Contains(body, `"nodeEligible":false`) {
		b.Errorf("/healthz returns %d %s while draining", code, body)
	}
	if code, _, _ := d.Get("127.0.0.1:10256", "/livez"); code != http.StatusOK {
		b.Errorf("/livez returns %d while draining", code)
	}
	if a, err := bed.AskWithin(bed.SilenceTimeout, b.Client, "tcp", bed.HostPort(bed.IP4, 80)); err == nil {
		b.Errorf("a new connection was served by %s while draining", a.Pod)
	}
	time.Sleep(300 * time.Millisecond)
	if err := bed.Echoes(c, r); err != nil {
		b.Errorf("the open connection: %v", err)
	}
	_ = c.CloseWrite()
	ended := time.Now()
	if code := d.Exit(); code != 0 || time.Since(ended) > 5*time.Second {
		b.Errorf("code %d, %v after the last connection ended", code, time.Since(ended))
	}
	if after := b.Rules(); after != before {
		b.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if r := d.RecordOf(a); r.Outcome != "ok" || r.BytesFromEndpoint == 0 {
		b.Errorf("recorded as %s", r)
	}
	leftNothing(b)
}

// leftNothing checks that no process whose command line names the bed's directory is still running.
func leftNothing(b *bed.Bed) {
	b.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(procs) == 0 {
		b.Fatalf("list processes: %v", err)
	}
	for _, p := range procs {
		if line, _ := os.ReadFile(p); strings.Contains(string(line), b.Dir) {
			b.Errorf("still running: %q", line)
		}
	}
}

func TestSecondTermCuts(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	c, _, a := b.Open(bed.HostPort(bed.IP4, 80))
	d.Signal(syscall.SIGTERM)
	b.Eventually("the drain", func() bool { return strings.Contains(d.Log.String(), "Draining") })
	select {
	case <-d.Ended:
		t.Error("portald ended at the first signal, with a connection open")
	case <-time.After(300 * time.Millisecond):
	}
	d.Signal(syscall.SIGTERM)
	if code := d.Exit(); code != 0 {
		t.Errorf("code %d", code)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
	if r := d.RecordOf(a); r.Outcome != "cut" || r.ClosedBy != "proxy" || r.CloseType != "reset" {
		t.Errorf("recorded as %s", r)
	}
}

func TestDrainTimeout(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0), "--drain-timeout=500ms")
	_, _, a := b.Open(bed.HostPort(bed.IP4, 80))
	began := time.Now()
	d.Signal(syscall.SIGTERM)
	code := d.Exit()
	if took := time.Since(began); code != 0 || took < 500*time.Millisecond || took > 5*time.Second {
		t.Errorf("exit code %d after %v, want 0 after about 500ms", code, took)
	}
	if r := d.RecordOf(a); r.Outcome != "cut" {
		t.Errorf("recorded as %s", r)
	}
}

// One client opens more connections than portald has descriptors. Connections within the client's share are served,
// the rest are reset at once; the daemon and other clients are not affected.
func TestOutOfDescriptors(t *testing.T) {
	b := bed.New(t, "prlimit")
	b.ServePods(0)
	b.WriteManifest(bed.Manifest, b.Cart(0))
	d := b.Launch([]string{"prlimit", "--nofile=600:600", "--"}, "--manifests", filepath.Join(b.Dir, bed.Manifest))
	b.Eventually("portald to serve", b.Served)
	var conns []net.Conn
	for range 400 {
		c, err := bed.Dial(bed.LongestTest, b.Client, "tcp", bed.HostPort(bed.IP4, 80))
		if errors.Is(err, syscall.ECONNRESET) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	const exhausted = `portald_accept_errors_total{reason="descriptors"}`
	b.Eventually("the shortage to be counted", func() bool { return d.Metric(exhausted) > 0 })
	if code, _, err := d.Get("127.0.0.1:10256", "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz returns %d, %v", code, err)
	}
	d.Apply(b.Cart(0).String() + b.Simple("more", "10.96.7.7", 0).String())
	if n := strings.Count(d.Log.String(), "Out of a resource"); n < 1 || n > 3 {
		t.Errorf("the shortage was logged %d times, want 1 to 3", n)
	}
	served := 0
	for i, c := range conns { // all are still open
		name := make([]byte, len("pod0\n"))
		switch _, err := c.Read(name); {
		case errors.Is(err, syscall.ECONNRESET):
		case err != nil || string(name) != "pod0\n":
			t.Fatalf("connection %d: %q, %v", i, name, err)
		default:
			served++
		}
	}
	if a, err := bed.Ask(b.Client, "tcp", bed.HostPort(bed.IP6, 80)); err != nil || a.Pod != "pod0" {
		t.Errorf("from another address: answered by %q, %v", a.Pod, err)
	}
	if served < 80 || served > 150 {
		t.Errorf("%d connections were served from 300 descriptors", served)
	}
	for _, c := range conns {
		c.Close()
	}
	b.Eventually("all frontends to be served after the shortage", b.Served)
}

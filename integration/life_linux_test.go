package integration

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
)

// Nothing else on the node tracks connections, so that the open one hangs on portald's own rules to the end.
func TestTermDrains(t *testing.T) {
	b := newBed(t)
	b.servePods(0)
	before := b.rules()
	d := b.start(b.cart(0), "--drain-timeout=20s")
	c, r, a := b.open(at(ip4, 80))
	d.signal(syscall.SIGTERM)
	b.eventually("portals to go", func() bool { return !strings.Contains(b.rules(), "--to-ports") })
	if code, body, _ := d.get("127.0.0.1:10256", "/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, `"nodeEligible":false`) {
		t.Errorf("/healthz says %d %s while draining", code, body)
	}
	if code, _, _ := d.get("127.0.0.1:10256", "/livez"); code != http.StatusOK {
		t.Errorf("/livez says %d while draining", code)
	}
	if a, err := whoWithin(patience/10, b.client, "tcp", at(ip4, 80)); err == nil {
		t.Errorf("a new connection was served by %s while draining", a.pod)
	}
	time.Sleep(300 * time.Millisecond)
	if err := echoes(c, r); err != nil {
		t.Errorf("the open connection: %v", err)
	}
	_ = c.CloseWrite()
	ended := time.Now()
	if code := d.exit(); code != 0 || time.Since(ended) > 5*time.Second {
		t.Errorf("code %d, %v after the last connection ended", code, time.Since(ended))
	}
	if after := b.rules(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if r := d.recordOf(a); r.Outcome != "ok" || r.BytesFromEndpoint == 0 {
		t.Errorf("recorded as %s", r)
	}
	b.leftNothing()
}

// leftNothing looks for processes of the bed's folder that still run.
func (b *bed) leftNothing() {
	b.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(procs) == 0 {
		b.Fatalf("list processes: %v", err)
	}
	for _, p := range procs {
		if line, _ := os.ReadFile(p); strings.Contains(string(line), b.dir) {
			b.Errorf("still runs: %q", line)
		}
	}
}

func TestSecondTermCuts(t *testing.T) {
	b := newBed(t)
	b.servePods(0)
	d := b.start(b.cart(0))
	c, _, a := b.open(at(ip4, 80))
	d.signal(syscall.SIGTERM)
	b.eventually("the drain", func() bool { return strings.Contains(d.log.String(), "Draining") })
	select {
	case <-d.ended:
		t.Error("it ended at the first signal, with a connection open")
	case <-time.After(300 * time.Millisecond):
	}
	d.signal(syscall.SIGTERM)
	if code := d.exit(); code != 0 {
		t.Errorf("code %d", code)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection still lives")
	}
	if r := d.recordOf(a); r.Outcome != "cut" || r.ClosedBy != "proxy" || r.How != "reset" {
		t.Errorf("recorded as %s", r)
	}
}

func TestDrainTimeout(t *testing.T) {
	b := newBed(t)
	b.servePods(0)
	d := b.start(b.cart(0), "--drain-timeout=500ms")
	_, _, a := b.open(at(ip4, 80))
	began := time.Now()
	d.signal(syscall.SIGTERM)
	code := d.exit()
	if took := time.Since(began); code != 0 || took < 500*time.Millisecond || took > 5*time.Second {
		t.Errorf("code %d after %v, want 0 after some 500ms", code, took)
	}
	if r := d.recordOf(a); r.Outcome != "cut" {
		t.Errorf("recorded as %s", r)
	}
}

// One client wants more connections than there are descriptors: those that are its share are served, the rest are reset at
// once, and the daemon, and whoever else comes, go on.
func TestOutOfDescriptors(t *testing.T) {
	b := newBed(t, "prlimit")
	b.servePods(0)
	b.write(manifest, b.cart(0))
	d := b.launch([]string{"prlimit", "--nofile=600:600", "--"}, "--manifests", filepath.Join(b.dir, manifest))
	b.eventually("portald to serve", b.served)
	var conns []net.Conn
	for range 400 {
		c, err := dial(time.Minute, b.client, "tcp", at(ip4, 80))
		if errors.Is(err, syscall.ECONNRESET) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	const short = `portald_accept_errors_total{reason="descriptors"}`
	b.eventually("the shortage to be counted", func() bool { return d.metric(short) > 0 })
	if code, _, err := d.get("127.0.0.1:10256", "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz says %d, %v", code, err)
	}
	d.apply(b.cart(0).String() + b.simple("more", "10.96.7.7", 0).String())
	if n := strings.Count(d.log.String(), "for want of something"); n < 1 || n > 3 {
		t.Errorf("the shortage was said %d times, want once in a while", n)
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
	if a, err := whoWithin(patience/10, b.client, "tcp", at(ip6, 80)); err != nil || a.pod != "pod0" {
		t.Errorf("from another address: answered by %q, %v", a.pod, err)
	}
	if served < 80 || served > 150 {
		t.Errorf("%d connections were served from 300 descriptors", served)
	}
	for _, c := range conns {
		c.Close()
	}
	b.eventually("all to be served after the shortage", b.served)
}

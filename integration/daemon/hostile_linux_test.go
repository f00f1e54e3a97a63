package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/health"
	"github.com/portald/portald/proxy/httpserver"
)

// hoarder opens connections that are a burden, from one address.
type hoarder struct {
	*bed.Bed
	mu   sync.Mutex
	open []net.Conn
}

// add opens n connections, writes the beginning of a request, and reads nothing. Any of them may be reset at once.
func (h *hoarder) add(n int, network, to, begin string) {
	h.Helper()
	for range n {
		c, err := net.DialTimeout(network, to, bed.AnswerTimeout)
		if errors.Is(err, syscall.ECONNRESET) {
			continue
		}
		h.Must(err)
		go func() { _, _ = io.WriteString(c, begin) }() // until the daemon has had enough
		h.mu.Lock()
		h.open = append(h.open, c)
		h.mu.Unlock()
	}
}

func (h *hoarder) close() {
	for _, c := range h.open {
		_ = c.Close()
	}
}

// descriptors is how many a process has open.
func descriptors(d *bed.Daemon) int {
	d.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.Cmd.Process.Pid))
	d.Must(err)
	return len(all)
}

// Clients of the admin socket, of the metrics and of the health server that send nothing, send it slowly, send too
// much, or read nothing, take a bounded number of descriptors and little memory. Meanwhile Services are served, new
// ones too, and clients at another address, or at the socket, are answered.
func TestHostileClientsOfServers(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	const allowed = 1000
	d := b.Launch([]string{"prlimit", fmt.Sprintf("--nofile=%d", allowed)},
		"--manifests", b.WriteManifest(bed.Manifest, b.Cart(0)), "--read-only-api",
		"--metrics-bind-address=0.0.0.0:10249", "--profiling")
	d.WaitReady()
	cart := bed.HostPort(bed.IP4, 80)
	for range 20 { // what is opened once is open
		_, err := bed.Ask(b.Client, "tcp", cart)
		b.Must(err)
	}
	before, most := 0.0, descriptors(d)
	const longer = 64 << 20
	h := &hoarder{Bed: b}
	defer h.close()
	served := func(when string) {
		t.Helper()
		for range 10 {
			if a, err := bed.Ask(b.Client, "tcp", cart); err != nil {
				t.Errorf("%s: %v %v", when, a, err)
			}
		}
		if info, err := d.Admin().Info(t.Context()); err != nil || !info.Ready {
			t.Errorf("%s: at the admin socket: %+v, %v", when, info, err)
		}
		node := b.Node.IPv4.String()
		for _, page := range []string{node + ":10256/healthz", node + ":10249/metrics"} {
			address, path, _ := strings.Cut(page, "/")
			code, body, err := bed.Fetch(b.Client, address, "/"+path)
			if err != nil || code != http.StatusOK {
				t.Errorf("%s: %s: %d %.100s, %v", when, page, code, body, err)
			}
			if path != "metrics" {
				continue
			}
			now := d.MemoryIn(body)
			if before == 0 {
				before = now
			}
			if now > before+longer {
				t.Errorf("%s: it takes %.0f MiB, %.0f before", when, now/(1<<20), before/(1<<20))
			}
		}
		if n := descriptors(d); n > most+3*httpserver.MaxConnections+health.MaxCheckConnections {
			t.Errorf("%s: %d descriptors are open, %d before", when, n, most)
		}
	}
	served("before")
	requests := map[string]string{
		"silent":        "",
		"a slow header": "GET /v1/info HTTP/1.1\r\nHost:",
		"a large header": "GET /v1/info HTTP/1.1\r\nHost: localhost\r\nX-Much: " + strings.Repeat("x", 1<<20) +
			"\r\n\r\n",
		"many headers":        "GET /v1/info HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("A: b\r\n", 1<<17),
		"a slow body":         "POST /v1/cut HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n{\"ids\":[",
		"a body without end":  "POST /v1/cut HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n[",
		"an unread page":      "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"many requests ahead": strings.Repeat("GET /v1/services HTTP/1.1\r\nHost: localhost\r\n\r\n", 1000),
		"followers":           "GET /v1/records?follow=1&last=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a long question": "GET /v1/explain?what=" + strings.Repeat("n", 8<<10) + "/" + strings.Repeat("c", 7<<10) +
			" HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a long list": "GET /v1/connections?" + strings.Repeat("service=a*b*c*d*e&", 800) +
			"tcp=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a profile": "GET /debug/pprof/profile?seconds=1000000 HTTP/1.1\r\nHost: localhost\r\n\r\n",
	}
	for name, request := range requests {
		h.add(200, "unix", d.Socket, request)
		b.Must(b.Node.Do(func() error {
			h.add(200, "tcp", "127.0.0.1:10249", request)
			h.add(200, "tcp", "127.0.0.1:10256", request)
			return nil
		}))
		served(name)
	}
	// The same once a client has all connections that it may have: what is reserved for the rest is enough.
	b.Must(b.Client.Do(func() error { h.add(allowed, "tcp", cart, ""); return nil }))
	d.RecordWhere("a connection was refused", func(r bed.Record) bool { return r.Outcome == "resources" })
	d.Apply(b.Simple("new", "10.96.7.7", 0))
	if a, err := bed.Ask(b.Net.Pod(1), "tcp", "10.96.7.7:80"); err != nil {
		t.Errorf("a new Service: %v %v", a, err)
	}
	if n := descriptors(d); n > allowed-100 {
		t.Errorf("%d of %d descriptors are open", n, allowed)
	}
	begin := time.Now()
	list, err := d.Admin().Connections(t.Context(), adminsocket.ConnectionQuery{})
	if err != nil {
		t.Errorf("%v, %v after %v", list, err, time.Since(begin))
	}
}

package admin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// smallBuffers has connections whose kernel takes few bytes that nobody reads.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4096)
	}
	return c, err
}

// stuck asks for a page from an address, reads the first line of the answer, and nothing more.
func stuck(t *testing.T, from, to, path string) (c net.Conn, first string) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { smallReceive(fd) })
	}}
	c, err := d.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	first, err = bufio.NewReaderSize(c, 16).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return c, first
}

// withSmallBuffers serves by connections with small buffers.
func withSmallBuffers(o ServerOptions) ServerOptions {
	listen := o.Listen
	o.Listen = func(ctx context.Context, network, address string) (net.Listener, error) {
		l, err := listen(ctx, network, address)
		return smallBuffers{l}, err
	}
	return o
}

// A client that does not read its metrics has others get new ones nevertheless.
func TestMetricsAreNewBesideAStuckClient(t *testing.T) {
	m := NewMetrics(DefaultLimits(), "IPv4")
	crowd(m, "shop", 300)
	o, at := options()
	defer served(t, NewMetricsServer(withSmallBuffers(o), m, Pages{}))()
	to := <-at
	_, first := stuck(t, "127.0.0.1", to, "/metrics")
	if !strings.Contains(first, "200") {
		t.Fatal(first)
	}
	for n := range 3 {
		m.AcceptError("new")
		_, page := fetch(t, "http://"+to+"/metrics")
		if want := fmt.Sprintf("portald_accept_errors_total{reason=\"new\"} %d\n", n+1); !strings.Contains(page, want) {
			t.Fatalf("there is no %s", want)
		}
	}
}

// Clients that do not read hold a few pages and no more, and keep no other address out. One page is made at a time.
func TestStuckClientsAreBounded(t *testing.T) {
	o, at := options()
	var making, most atomic.Int32
	l := newLargePage(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		most.Store(max(most.Load(), making.Add(1)))
		defer making.Add(-1)
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
	}))
	defer served(t, newServer(withSmallBuffers(o), l))()
	to := <-at
	other, _ := stuck(t, "127.0.0.3", to, "/")
	for range 5 * maxPages {
		stuck(t, "127.0.0.2", to, "/")
		l.mu.Lock()
		if n := len(l.open); n > maxPages {
			t.Errorf("%d pages are held", n)
		}
		l.mu.Unlock()
	}
	if code, text := fetch(t, "http://"+to); code != 200 || len(text) != 1<<20 {
		t.Errorf("another address: %d and %d bytes", code, len(text))
	}
	if rest, err := io.Copy(io.Discard, io.LimitReader(other, 1<<20)); rest != 1<<20 {
		t.Errorf("an address with one client, which was slow: %d bytes, %v", rest, err)
	}
	if most.Load() != 1 {
		t.Errorf("%d pages at a time were made", most.Load())
	}
}

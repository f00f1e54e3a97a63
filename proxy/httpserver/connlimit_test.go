package httpserver

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/portald/portald/proxy/servertest"
)

// hoard opens connections from an address and sends nothing.
func hoard(t *testing.T, from, to string, n int) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	for range n {
		c, err := d.DialContext(t.Context(), "tcp", to)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
}

// A thousand connections from one address neither use up descriptors nor delay a probe, and close no connection of
// another.
func TestConnectionsOfOneAddressAreBounded(t *testing.T) {
	o, at := options()
	s := New(o, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "well") }))
	defer servertest.Serve(t, s)()
	to := <-at
	other, kept := http.Client{Timeout: 5 * time.Second}, false
	trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) { kept = c.Reused },
	})
	ask := func() {
		t.Helper()
		r, err := http.NewRequestWithContext(trace, http.MethodGet, "http://"+to, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := other.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
	}
	ask() // and its connection stays
	for range 10 {
		hoard(t, "127.0.0.2", to, 100)
		if code, text := servertest.Fetch(t, "http://"+to); code != 200 || text != "well" {
			t.Fatalf("got %d %q", code, text)
		}
		s.o.Limit.mu.Lock()
		n := len(s.o.Limit.open)
		s.o.Limit.mu.Unlock()
		if n > MaxConnections {
			t.Fatalf("%d connections are open", n)
		}
		if ask(); !kept { // asked before it has been idle for too long
			t.Fatal("the connection of another address was closed")
		}
	}
}

// A connection that is being served stays while its address has idle ones.
func TestBusyConnectionsStay(t *testing.T) {
	l := NewConnLimit(3)
	var conns []net.Conn
	enter := func() net.Conn {
		c, _ := net.Pipe()
		l.track(c, http.StateNew)
		conns = append(conns, c)
		return c
	}
	enter()
	l.track(conns[0], http.StateActive)
	enter()
	enter()
	enter()
	closed := func(c net.Conn) bool {
		_ = c.SetReadDeadline(time.Now())
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, io.ErrClosedPipe)
	}
	if closed(conns[0]) || !closed(conns[1]) || closed(conns[2]) {
		t.Error("it is not the connection idle longest that was closed")
	}
	l.track(conns[1], http.StateClosed) // after it was closed to make room
	l.track(conns[0], http.StateClosed)
	if len(l.open) != 2 {
		t.Errorf("%d connections are known", len(l.open))
	}
}

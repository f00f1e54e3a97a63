package admin

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// hoard opens connections from an address that say nothing.
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

// A thousand connections of somebody neither use up descriptors nor keep a probe from its answer, nor do they end the
// connections of others.
func TestServerIsNotHoarded(t *testing.T) {
	o, at := options()
	s := newServer(o, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "well") }))
	defer served(t, s)()
	to := <-at
	other := http.Client{Timeout: 5 * time.Second}
	ask := func() {
		t.Helper()
		resp, err := other.Get("http://" + to)
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
		if code, text := fetch(t, "http://"+to); code != 200 || text != "well" {
			t.Fatalf("got %d %q", code, text)
		}
		s.places.mu.Lock()
		n := len(s.places.taken)
		s.places.mu.Unlock()
		if n > placesOfServer {
			t.Fatalf("%d connections are open", n)
		}
	}
	s.places.mu.Lock()
	defer s.places.mu.Unlock()
	for _, p := range s.places.taken {
		if p.from.String() == "127.0.0.1" {
			return
		}
	}
	t.Error("the connection of another had to go")
}

// One that is being answered outlasts the idle ones of its address.
func TestPlaces(t *testing.T) {
	p := &places{most: 3}
	var conns []net.Conn
	enter := func() net.Conn {
		c, _ := net.Pipe()
		p.follow(c, http.StateNew)
		conns = append(conns, c)
		return c
	}
	enter()
	p.follow(conns[0], http.StateActive)
	enter()
	enter()
	enter()
	closed := func(c net.Conn) bool {
		_ = c.SetReadDeadline(time.Now())
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, io.ErrClosedPipe)
	}
	if closed(conns[0]) || !closed(conns[1]) || closed(conns[2]) {
		t.Error("not the idle one that was there first had to go")
	}
	p.follow(conns[1], http.StateClosed) // it was told
	p.follow(conns[0], http.StateClosed)
	if len(p.taken) != 2 {
		t.Errorf("%d connections are known", len(p.taken))
	}
}

package adminsocket

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Lists that nobody reads are few at a time, and lists by TCP leave room to lists by the socket.
func TestListsThatNobodyReads(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	d := (&fake{}).daemon()
	var lists, most atomic.Int32
	d.Services = func(context.Context, func(string) bool) iter.Seq[*Service] {
		return func(yield func(*Service) bool) {
			most.Store(max(most.Load(), lists.Add(1)))
			defer lists.Add(-1)
			for range 1 << 14 {
				if !yield(&Service{Name: strings.Repeat("x", 1<<10)}) {
					return
				}
			}
		}
	}
	h := NewHandler(d)
	view := httptest.NewServer(h.View())
	defer view.Close()
	defer view.CloseClientConnections()
	for range maxLists { // of which half get an answer
		c, err := net.Dial("tcp", view.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /v1/services HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	c := serve(t, h)
	n := 0
	err := c.EachRow(t.Context(), "/v1/services", nil, func([]byte) error { n++; return nil })
	if err != nil || n != 1<<14 {
		t.Errorf("a client of the socket: %d, %v", n, err)
	}
	late, err := net.Dial("tcp", view.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	fmt.Fprintf(late, "GET /v1/services HTTP/1.1\r\nHost: localhost\r\n\r\n")
	_ = late.SetDeadline(time.Now().Add(time.Minute))
	if first, err := bufio.NewReader(late).ReadString('\n'); err != nil || !strings.Contains(first, " 503 ") {
		t.Errorf("one more by TCP: %s, %v", first, err)
	}
	if n := most.Load(); n > maxLists/2+1 {
		t.Errorf("%d lists at a time", n)
	}
}

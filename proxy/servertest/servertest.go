// Package servertest runs HTTP servers in tests, and has clients for them: some that read, and some that do not.
package servertest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// ListenFunc binds an address.
type ListenFunc = func(ctx context.Context, network, address string) (net.Listener, error)

// Listen returns what binds an address, and where it is to be found once it is bound.
func Listen() (ListenFunc, <-chan string) {
	at := make(chan string, 1)
	return func(ctx context.Context, network, address string) (net.Listener, error) {
		l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
		if err == nil {
			at <- l.Addr().String()
		}
		return l, err
	}, at
}

// Serve runs a server; the function returned ends it and returns Run's error.
func Serve(t *testing.T, s interface{ Run(context.Context) error }) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

// Fetch returns the status code and the body of an answer.
func Fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// smallBuffers has connections whose kernel takes few bytes that nobody reads.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4096)
	}
	return c, err
}

// Stuck asks for a page from an address, reads the first line of the answer, and nothing more.
func Stuck(t *testing.T, from, to, path string) (c net.Conn, first string) {
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

// SmallBuffers has connections with small buffers instead.
func SmallBuffers(listen ListenFunc) ListenFunc {
	return func(ctx context.Context, network, address string) (net.Listener, error) {
		l, err := listen(ctx, network, address)
		return smallBuffers{l}, err
	}
}

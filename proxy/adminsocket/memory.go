package adminsocket

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// InMemory returns a function that connects to a handler in this process, for NewClientOver. What serves the
// connections lives as long as the process.
func InMemory(h http.Handler) func(context.Context) (net.Conn, error) {
	l := &memoryListener{connections: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: h}
	var once sync.Once
	return func(ctx context.Context) (net.Conn, error) {
		once.Do(func() { go server.Serve(l) })
		return l.dial(ctx)
	}
}

// Viewer returns a client in this process of what View answers. To the limits of the API it is one of TCP: it asks for
// others.
func (h *Handler) Viewer() *Client {
	view := h.View()
	return NewClientOver("this daemon", InMemory(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr, r.Host = "127.0.0.1:0", "localhost"
		view.ServeHTTP(w, r)
	})))
}

// memoryListener accepts connections of this process.
type memoryListener struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (l *memoryListener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.connections <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Accept implements net.Listener.
func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.connections:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *memoryListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

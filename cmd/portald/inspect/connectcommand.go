package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/portald/portald/cmd/portald/inspect/cluster"
	"github.com/portald/portald/proxy/adminsocket"
)

// connectCommand is what commands that look into a cluster run in the pod of each node.
func connectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "connect",
		Short:  "Connect standard input and output to the admin socket, for commands on other hosts",
		Hidden: true,
		Args:   flagsOnly,
	}
	readOnly := cmd.Flags().Bool("read-only", false, "let nothing pass but requests that change nothing")
	socket := cmd.Flags().String("socket", adminsocket.DefaultSocket, "the daemon's --admin-socket, a `PATH`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		daemon, err := adminsocket.Dial(cmd.Context(), *socket)
		if err != nil {
			return exitError{fmt.Errorf("connect to the daemon at %s: %w", *socket, err), exitUnreachable}
		}
		defer daemon.Close()
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), cluster.Greeting); err != nil {
			return err
		}
		std := &stdio{Reader: cmd.InOrStdin(), Writer: cmd.OutOrStdout(), closed: make(chan struct{})}
		if *readOnly {
			return serveReadOnly(cmd.Context(), std, *socket)
		}
		return copyBoth(cmd.Context(), std, daemon)
	}
	return cmd
}

// copyBoth copies until one direction ends: the other one may wait for what never comes.
func copyBoth(ctx context.Context, a, b io.ReadWriter) error {
	ended := make(chan error, 2)
	for _, way := range [][2]io.ReadWriter{{a, b}, {b, a}} {
		go func() {
			_, err := io.Copy(way[0], way[1])
			ended <- err
		}()
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// serveReadOnly passes requests on that change nothing: those of the method GET. It is how a user who may run this
// command alone may not change anything, though the socket is root's.
func serveReadOnly(ctx context.Context, c *stdio, socket string) error {
	to := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "portald"
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return adminsocket.Dial(ctx, socket) },
		},
		FlushInterval: -1, // what follows records waits for each
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Hour, // the connection is kept
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				w.Header().Set(adminsocket.HeaderVersion, adminsocket.Version)
				http.Error(w, `{"error":"this connection is for requests that change nothing"}`, http.StatusForbidden)
				return
			}
			to.ServeHTTP(w, r)
		}),
	}
	go func() {
		select {
		case <-c.closed:
		case <-ctx.Done():
		}
		server.Close()
	}()
	if err := server.Serve(&once{c: c}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// once is a listener with one connection.
type once struct {
	c    *stdio
	gave bool
}

// Accept implements net.Listener.
func (o *once) Accept() (net.Conn, error) {
	if !o.gave {
		o.gave = true
		return o.c, nil
	}
	<-o.c.closed
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (o *once) Close() error { return nil }

// Addr implements net.Listener.
func (o *once) Addr() net.Addr { return o.c.LocalAddr() }

// stdio is standard input and output as a connection.
type stdio struct {
	io.Reader
	io.Writer
	once   sync.Once
	closed chan struct{}
}

// Close implements net.Conn.
func (c *stdio) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// LocalAddr implements net.Conn.
func (c *stdio) LocalAddr() net.Addr { return &net.UnixAddr{Name: "stdio", Net: "unix"} }

// RemoteAddr implements net.Conn.
func (c *stdio) RemoteAddr() net.Addr { return c.LocalAddr() }

// SetDeadline implements net.Conn.
func (c *stdio) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline implements net.Conn.
func (c *stdio) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline implements net.Conn.
func (c *stdio) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

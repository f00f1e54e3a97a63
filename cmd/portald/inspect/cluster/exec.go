package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/portald/portald/platform/printable"
)

// Greeting is the line that `portald connect` prints once it is connected. What is before the line is an error of
// something else, and what follows is the daemon's.
const Greeting = "portald: connected"

// Run runs a command of portald in the pod, and returns why it failed, with what it said.
func (n *Node) Run(ctx context.Context, args []string, out io.Writer) error {
	var said tailBuffer
	err := n.exec.stream(ctx, slices.Concat([]string{"portald"}, args, n.socket), nil, out, &said)
	if err != nil && ctx.Err() == nil {
		return said.explain(err)
	}
	return err
}

// executor runs commands in a pod.
type executor struct {
	core           rest.Interface
	config         *rest.Config
	namespace, pod string
}

func (e executor) stream(ctx context.Context, command []string, in io.Reader, out, errOut io.Writer) error {
	request := e.core.Post().Namespace(e.namespace).Resource("pods").Name(e.pod).SubResource("exec").
		Param("container", container).Param("stdin", strconv.FormatBool(in != nil)).
		Param("stdout", "true").Param("stderr", "true")
	for _, word := range command {
		request.Param("command", word)
	}
	url := request.URL()
	websocket, err := remotecommand.NewWebSocketExecutor(e.config, "GET", url.String())
	if err != nil {
		return err
	}
	spdy, err := remotecommand.NewSPDYExecutor(e.config, "POST", url)
	if err != nil {
		return err
	}
	either, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return err
	}
	ctx = klog.NewContext(ctx, logr.Discard()) // it logs each connection that was closed before its next ping
	return either.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: errOut})
}

// dial returns a function that connects to the daemon by a command, which copies between the socket and its standard
// input and output.
func (e executor) dial(command []string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		streaming, cancel := context.WithCancel(context.WithoutCancel(ctx))
		inRead, inWrite := io.Pipe()
		outRead, outWrite := io.Pipe()
		var said tailBuffer
		go func() {
			err := e.stream(streaming, command, inRead, outWrite, &said)
			if err != nil {
				err = said.explain(err)
			}
			outWrite.CloseWithError(err) // nil: io.EOF
			inWrite.Close()
		}()
		c := &conn{out: bufio.NewReader(outRead), in: inWrite, close: func() {
			cancel()
			outRead.Close()
			inWrite.Close()
		}}
		stop := context.AfterFunc(ctx, c.close)
		defer stop()
		if err := c.greet(); err != nil {
			c.close()
			return nil, errors.Join(ctx.Err(), err)
		}
		return c, nil
	}
}

// conn is a connection to a daemon by a command.
type conn struct {
	out   *bufio.Reader
	in    *io.PipeWriter
	close func()
}

// greet reads the greeting.
func (c *conn) greet() error {
	line, err := c.out.ReadString('\n')
	if err != nil {
		return err
	}
	if line = strings.TrimSpace(line); line != Greeting {
		return fmt.Errorf("`portald connect` says %q: the pod has another portald than this command", printable.Text(line))
	}
	return nil
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) { return c.out.Read(p) }

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) { return c.in.Write(p) }

// Close implements net.Conn.
func (c *conn) Close() error {
	c.close()
	return nil
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return &net.UnixAddr{Name: "exec", Net: "unix"} }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.LocalAddr() }

// SetDeadline implements net.Conn. The client of HTTP sets none.
func (c *conn) SetDeadline(time.Time) error { return errors.ErrUnsupported }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(time.Time) error { return errors.ErrUnsupported }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

// tailBuffer keeps the end of what a command says on standard error.
type tailBuffer struct{ text []byte }

const mostSaid = 1000 // bytes

// Write implements io.Writer.
func (b *tailBuffer) Write(p []byte) (int, error) {
	b.text = append(b.text, p...)
	b.text = b.text[max(0, len(b.text)-mostSaid):]
	return len(p), nil
}

// explain adds what the command said to the error of its end.
func (b *tailBuffer) explain(err error) error {
	said := printable.Text(string(bytes.TrimSpace(bytes.TrimPrefix(b.text, []byte("portald: ")))))
	switch {
	case strings.Contains(said, "unknown command"):
		return errors.New("the portald in the pod is older than this command: it has no `portald connect`")
	case said == "":
		return err
	}
	return errors.New(said)
}

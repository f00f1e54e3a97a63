package webui

import (
	"context"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
)

// fake is the daemon of one node, which answers with fixed rows.
type fake struct {
	node        string
	services    []adminsocket.Service
	endpoints   []adminsocket.Endpoint
	connections []adminsocket.Connection
	records     *connlog.Stream
	changes     *changes.Log
}

func newFake(node string) *fake {
	return &fake{node: node, records: connlog.NewStream(64), changes: changes.NewLog(64)}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// listen returns a socket for a daemon, and its path.
func listen(t testing.TB) (net.Listener, string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("this is shown over a Unix socket; the pipe of Windows has a test of its own")
	}
	dir, err := os.MkdirTemp("", "ui") // the path of a socket is short
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "admin.sock")
	l, err := adminsocket.Listen(t.Context(), path)
	check(t, err)
	return l, path
}

// serve returns the node.
func (f *fake) serve(t testing.TB) Node {
	t.Helper()
	l, path := listen(t)
	server := &http.Server{Handler: adminsocket.NewHandler(adminsocket.Daemon{
		Info: func() adminsocket.Info {
			return adminsocket.Info{Node: f.node, Ready: true, RecordsSince: time.Now().Add(-time.Hour)}
		},
		Services: func(_ context.Context, wanted func(string) bool) iter.Seq[*adminsocket.Service] {
			return each(f.services, func(s *adminsocket.Service) bool { return wanted(s.Name) })
		},
		Endpoints: func(_ context.Context, wanted func(string) bool) iter.Seq[*adminsocket.Endpoint] {
			return each(f.endpoints, func(e *adminsocket.Endpoint) bool { return wanted(e.Service) })
		},
		Connections: func(context.Context) iter.Seq[*adminsocket.Connection] {
			return each(f.connections, func(*adminsocket.Connection) bool { return true })
		},
		AddTCP:  func(context.Context, []adminsocket.Connection) {},
		Records: f.records, Changes: f.changes,
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	client := adminsocket.NewClient(path)
	t.Cleanup(client.Close)
	return Node{Client: client}
}

func each[T any](all []T, wanted func(*T) bool) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range all {
			if wanted(&all[i]) && !yield(&all[i]) {
				return
			}
		}
	}
}

// hung returns a node that accepts and never answers.
func hung(t testing.TB, name string) Node {
	t.Helper()
	l, path := listen(t)
	t.Cleanup(func() { l.Close() })
	client := adminsocket.NewClient(path)
	t.Cleanup(client.Close)
	return Node{Name: name, Client: client}
}

// pass asks each node once.
func pass(t testing.TB, c *cluster) {
	t.Helper()
	for _, n := range c.nodes {
		c.pass(t.Context(), n)
	}
}

func ptr[T any](v T) *T { return &v }

// cart is a Service after so many connections.
func cart(ended, failed, retries uint64, usable int) adminsocket.Service {
	return adminsocket.Service{
		Name: "shop/cart:http", Protocol: "tcp", Mode: "userspace", ModeFrom: "default",
		Frontends: []adminsocket.Frontend{}, Endpoints: 3, Usable: usable, Open: ptr(2), Ended: &ended, Failed: &failed,
		BytesUp: ptr(uint64(0)), BytesDown: ptr(uint64(0)), FailedDials: &retries, Replays: ptr(uint64(0)),
		FirstByte: &adminsocket.Histogram{BoundsMS: []float64{1, 10}, Counts: []uint64{ended - failed, 0, failed}},
	}
}

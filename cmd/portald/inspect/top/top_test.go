package top

import (
	"context"
	"iter"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
)

// bed is a daemon with rows of the test's choice, and a screen that looks at it.
type bed struct {
	*testing.T
	socket string
	server *http.Server
	screen tcell.SimulationScreen
	top    *screen

	records *connlog.Stream

	mu          sync.Mutex
	services    []adminsocket.Service // what follows is guarded by mu
	endpoints   []adminsocket.Endpoint
	connections []adminsocket.Connection
	cut         []uint64
	refuse      error  // a drain
	grow        func() // before each answer; nil: nothing does
}

const (
	width  = 160
	height = 24
)

func newBed(t *testing.T) *bed {
	if runtime.GOOS == "windows" {
		t.Skip("this is shown over a Unix socket; the pipe of Windows has a test of its own")
	}
	dir, err := os.MkdirTemp("", "top") // the path of a socket is short
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	return &bed{T: t, socket: filepath.Join(dir, "admin.sock"), records: connlog.NewStream(64)}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve starts the daemon.
func (b *bed) serve() {
	b.Helper()
	l, err := adminsocket.Listen(b.Context(), b.socket)
	check(b.T, err)
	b.server = &http.Server{Handler: adminsocket.NewHandler(adminsocket.Daemon{
		Info: func() adminsocket.Info {
			return adminsocket.Info{Version: "v1", Node: "node-1", PID: 1, Mode: "userspace", Writer: "iptables", Ready: true}
		},
		Connections: func(context.Context) iter.Seq[*adminsocket.Connection] {
			return pointers(rows(b, &b.connections))
		},
		AddTCP: func(context.Context, []adminsocket.Connection) {},
		Services: func(context.Context, func(string) bool) iter.Seq[*adminsocket.Service] {
			return pointers(rows(b, &b.services))
		},
		Endpoints: func(context.Context, func(string) bool) iter.Seq[*adminsocket.Endpoint] {
			return pointers(rows(b, &b.endpoints))
		},
		Drain:   func(e *adminsocket.Endpoint, _ bool) error { return b.drain(e, adminsocket.Drained) },
		Undrain: func(e *adminsocket.Endpoint) error { return b.drain(e, "used") },
		Records: b.records,
		Changes: changes.NewLog(1),
		Cut: func(id uint64) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.cut = append(b.cut, id)
			before := len(b.connections)
			b.connections = slices.DeleteFunc(b.connections, func(c adminsocket.Connection) bool { return c.ID == id })
			return len(b.connections) < before
		},
	})}
	server := b.server
	go server.Serve(l)
	b.Cleanup(func() { server.Close() })
}

func rows[T any](b *bed, all *[]T) []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.grow != nil {
		b.grow()
	}
	return slices.Clone(*all)
}

func pointers[T any](all []T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range all {
			if !yield(&all[i]) {
				return
			}
		}
	}
}

func (b *bed) drain(e *adminsocket.Endpoint, state string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.endpoints {
		if b.endpoints[i].Address == e.Address && b.refuse == nil {
			b.endpoints[i].State = state
		}
	}
	return b.refuse
}

// change has the daemon answer other rows from now on.
func (b *bed) change(edit func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	edit()
}

// grows has a part of the rows grow before each answer, so that a rate is shown until steady is called: one that is
// shown for a moment may never be seen.
func (b *bed) grows(grow func()) (steady func()) {
	b.change(func() { b.grow = grow })
	return func() { b.change(func() { b.grow = nil }) }
}

// start starts the screen.
func (b *bed) start() {
	b.Helper()
	b.screen = tcell.NewSimulationScreen("UTF-8")
	check(b.T, b.screen.Init())
	b.screen.SetSize(width, height)
	client := adminsocket.NewClient(b.socket)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(b.Context())
	b.top = newScreen(client, 20*time.Millisecond, true)
	go func() { ended <- b.top.run(ctx, b.screen) }()
	b.Cleanup(func() {
		cancel()
		check(b.T, <-ended)
		client.Close()
	})
}

// press presses keys: each rune of the text.
func (b *bed) press(text string) {
	for _, r := range text {
		b.screen.InjectKey(tcell.KeyRune, r, tcell.ModNone)
	}
}

func (b *bed) key(k tcell.Key) { b.screen.InjectKey(k, 0, tcell.ModNone) }

// text returns the contents of the screen, line by line. It is read between two drawings.
func (b *bed) text() string {
	var out strings.Builder
	b.top.app.QueueUpdate(func() {
		cells, w, _ := b.screen.GetContents()
		for i, c := range cells {
			if i > 0 && i%w == 0 {
				out.WriteByte('\n')
			}
			out.WriteString(string(c.Runes))
		}
	})
	return out.String()
}

// want waits until each text is on the screen.
func (b *bed) want(texts ...string) {
	b.Helper()
	b.until(func(now string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(now, text) })
	}, texts)
}

// wantNot waits until the text is not on the screen.
func (b *bed) wantNot(text string) {
	b.Helper()
	b.until(func(now string) bool { return !strings.Contains(now, text) }, "not "+text)
}

func (b *bed) until(so func(string) bool, what any) {
	b.Helper()
	for end := time.Now().Add(10 * time.Second); !so(b.text()); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("want %q on the screen:\n%s", what, b.text())
		}
	}
}

// order waits until texts are in this order from the top down.
func (b *bed) order(texts ...string) {
	b.Helper()
	b.until(func(now string) bool {
		at := -1
		for _, text := range texts {
			next := strings.Index(now, text)
			if next <= at {
				return false
			}
			at = next
		}
		return true
	}, texts)
}

func addr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// conn is an open connection with so many bytes down.
func conn(id uint64, service, client string, down int64) adminsocket.Connection {
	return adminsocket.Connection{
		ID: id, CarriedBy: "userspace", Service: service, Protocol: "tcp", State: "open", Client: addr(client),
		OriginalDst: addr("10.96.0.10:80"), Portal: "ClusterIP", Endpoint: addr("10.1.1.1:8080"), Pod: "shop/cart-a",
		Start: time.Now().Add(-time.Hour), LastMoved: time.Now(), Attempts: 2, BytesFromEndpoint: down,
	}
}

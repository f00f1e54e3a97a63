package inspect

import (
	"bytes"
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

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/portald/portald/proxy/adminsocket"
	"github.com/portald/portald/proxy/changes"
	"github.com/portald/portald/proxy/connlog"
	"github.com/portald/portald/proxy/connlog/logfiles"
	"github.com/portald/portald/proxy/payload"
)

// bed is a daemon that answers with fixed rows at a socket of its own.
type bed struct {
	testing.TB
	socket string

	connections []adminsocket.Connection
	services    []adminsocket.Service
	endpoints   []adminsocket.Endpoint
	stream      *connlog.Stream
	files       logfiles.Log
	changes     *changes.Log
	payload     payload.Content
	cut         []uint64
	drained     string // what was, with +, and was undone, with -
	refuse      error  // a drain without force
	level       string
	info        adminsocket.Info // its level is the one above

	stop func() // ends the daemon
}

func newBed(t testing.TB) *bed {
	if runtime.GOOS == "windows" {
		t.Skip("this is shown over a Unix socket; the pipe of Windows has a test of its own")
	}
	dir, err := os.MkdirTemp("", "inspect") // the path of a socket is short
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	b := &bed{TB: t, socket: filepath.Join(dir, "admin.sock"), level: "info", stream: connlog.NewStream(64),
		changes: changes.NewLog(100),
		files:   logfiles.Log{Path: filepath.Join(dir, "connections.json"), Format: "json", Keeps: 5}}
	l, err := adminsocket.Listen(t.Context(), b.socket)
	check(t, err)
	server := &http.Server{Handler: adminsocket.NewHandler(adminsocket.Daemon{
		Info: func() adminsocket.Info {
			info := b.info
			info.LogLevel = b.level
			return info
		},
		Connections: func(context.Context) iter.Seq[*adminsocket.Connection] {
			return chosen(b.connections, func(*adminsocket.Connection) bool { return true })
		},
		Services: func(_ context.Context, wanted func(string) bool) iter.Seq[*adminsocket.Service] {
			return chosen(b.services, func(s *adminsocket.Service) bool { return wanted(s.Name) })
		},
		Endpoints: func(_ context.Context, wanted func(string) bool) iter.Seq[*adminsocket.Endpoint] {
			return chosen(b.endpoints, func(e *adminsocket.Endpoint) bool { return wanted(e.Service) })
		},
		Drain: func(e *adminsocket.Endpoint, force bool) error {
			if b.refuse != nil && !force {
				return b.refuse
			}
			b.drained += "+" + e.Address.String() + " "
			return nil
		},
		Undrain: func(e *adminsocket.Endpoint) error { b.drained += "-" + e.Address.String() + " "; return nil },
		AddTCP:  func(context.Context, []adminsocket.Connection) {},
		Records: b.stream,
		Files:   b.files,
		Changes: b.changes,
		Payload: func() payload.Content { return b.payload },
		Cut: func(id uint64) bool {
			open := slices.ContainsFunc(b.connections, func(c adminsocket.Connection) bool { return c.ID == id })
			b.cut = append(b.cut, id)
			return open
		},
		SetLogLevel: func(level string) error { b.level = level; return nil },
	})}
	go server.Serve(l)
	b.stop = func() { server.Close() }
	t.Cleanup(b.stop)
	return b
}

func chosen[T any](all []T, wanted func(*T) bool) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range all {
			if wanted(&all[i]) && !yield(&all[i]) {
				return
			}
		}
	}
}

// result has the output and exit code of a command.
type result struct {
	out, errOut string
	err         error
}

func (r result) code() int {
	if r.err == nil {
		return 0
	}
	if e, ok := r.err.(interface{ CommandExitCode() int }); ok {
		return e.CommandExitCode()
	}
	return 1
}

// run runs a command line of portald, with the bed's socket.
func (b *bed) run(line ...string) result {
	return run(b.Context(), "", append(line, "--socket", b.socket)...)
}

// golden compares what a command line prints with a file. UPDATE_GOLDEN=1 writes it again.
func (b *bed) golden(name, line string) {
	b.Helper()
	got := b.run(strings.Fields(line)...)
	if got.err != nil {
		b.Errorf("%s: %v", line, got.err)
	}
	path := filepath.Join("testdata", name+".txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		check(b.TB, os.WriteFile(path, []byte(got.out), 0o644))
	}
	want, err := os.ReadFile(path)
	check(b.TB, err)
	if d := cmp.Diff(string(want), got.out); d != "" {
		b.Errorf("%s is not %s (-want +got)\n%s", line, path, d)
	}
}

// newRoot is portald with these commands alone.
func newRoot() *cobra.Command {
	root := &cobra.Command{Use: "portald", SilenceErrors: true, SilenceUsage: true}
	for _, group := range []string{GroupReadOnly, GroupChange} {
		root.AddGroup(&cobra.Group{ID: group})
	}
	root.AddCommand(Commands()...)
	return root
}

// lockedBuffer collects the output of a running command. Whoever holds the lock is a reader who does not read.
type lockedBuffer struct {
	sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.Lock()
	defer b.Unlock()
	return b.text.String()
}

func run(ctx context.Context, in string, line ...string) result {
	root := newRoot()
	var out, errOut bytes.Buffer
	root.SetIn(strings.NewReader(in))
	root.SetOut(&out)
	root.SetErr(&errOut)
	root.SetArgs(line)
	err := root.ExecuteContext(ctx)
	return result{out.String(), errOut.String(), err}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func addr(s string) netip.AddrPort {
	if s == "" {
		return netip.AddrPort{}
	}
	return netip.MustParseAddrPort(s)
}

// ago is a moment in the past; tests have a second until the age that is printed changes.
func ago(d time.Duration) time.Time { return time.Now().Add(-d - 300*time.Millisecond) }

package bed

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/portald/portald/integration/topology"
	"github.com/portald/portald/proxy/adminsocket"
)

// Daemon is a portald process on the node.
type Daemon struct {
	*Bed
	Cmd    *exec.Cmd
	cancel context.CancelFunc
	Log    *Output
	Ended  chan struct{} // closed when the process has ended
	File   string        // the connection log
	Socket string        // the admin socket, of Launch
	line   []string

	program int // its place in line

	ExpectErrors bool // error lines in its log do not fail the test
}

// Output collects the output of a process. It is safe for concurrent use.
type Output struct {
	Mu  sync.Mutex
	Buf bytes.Buffer
}

func (t *Output) Write(p []byte) (int, error) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return t.Buf.Write(p)
}

func (t *Output) String() string {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return t.Buf.String()
}

// Manifest is the name of the file that Start and Apply write.
const Manifest = "services.yaml"

// Start runs portald with these manifests and waits until it is ready. The connection log is a file of JSON lines.
func (b *Bed) Start(manifests any, args ...string) *Daemon {
	b.Helper()
	path := b.WriteManifest(Manifest, manifests)
	return b.StartWith(append([]string{"--manifests", path}, args...)...)
}

// StartWith is Start without manifests: the arguments name them.
func (b *Bed) StartWith(args ...string) *Daemon {
	b.Helper()
	d := b.Launch(nil, args...)
	d.WaitReady()
	return d
}

// WaitReady waits until /healthz returns 200.
func (d *Daemon) WaitReady() {
	d.Helper()
	d.Eventually("portald to be ready", func() bool {
		select {
		case <-d.Ended:
			d.Fatalf("portald ended: %s", d.Log)
		default:
		}
		code, _, err := d.Get("127.0.0.1:10256", "/healthz")
		return err == nil && code == http.StatusOK
	})
}

// Launch starts portald, through a wrapper command if there is one, and does not wait. The end of the test stops it.
func (b *Bed) Launch(wrapper []string, args ...string) *Daemon {
	b.Helper()
	socket := b.newSocket()
	own := []string{"--log-level=debug", "--hostname-override=here", "--connection-log=" + b.RecordFile(),
		"--connection-log-format=json", "--admin-socket=" + socket}
	if b.Program == "" || b.Program == Portald { // an older one has no limit, and cannot be told so
		own = append(own, "--connection-log-max-size=0")
	}
	args = append(own, args...)
	line := append(wrapper, b.Line(args...)...)
	d := b.Exec(line...)
	d.Socket, d.line, d.program = socket, line, len(wrapper)
	return d
}

// CommandLine is that of Launch.
func (d *Daemon) CommandLine() []string { return slices.Clone(d.line) }

// Succeed launches the next portald, which takes over from this one, with the same command line and further arguments.
// It is the Bed's Program.
func (d *Daemon) Succeed(args ...string) *Daemon {
	d.Helper()
	line := append(d.CommandLine(), args...)
	line[d.program] = cmp.Or(d.Program, line[d.program])
	next := d.Exec(line...)
	next.Socket, next.line, next.program = d.Socket, line, d.program
	return next
}

// newSocket is an admin socket for one more daemon of the bed: some tests run several. The path of a socket must not be
// as long as that of a test's folder may be.
func (b *Bed) newSocket() string {
	b.Helper()
	folder := b.ShortDir()
	if b.Windows != nil {
		return adminsocket.DefaultPipe + "-" + filepath.Base(folder)
	}
	return filepath.Join(folder, "admin.sock")
}

// ShortDir is a folder whose path is short enough for that of a socket, until the end of the test.
func (b *Bed) ShortDir() string {
	b.Helper()
	folder, err := os.MkdirTemp("", "portald")
	b.Must(err)
	b.Cleanup(func() { b.Must(os.RemoveAll(folder)) })
	return folder
}

// Admin returns a client of the daemon's admin socket.
func (d *Daemon) Admin() *adminsocket.Client {
	d.Helper()
	NeedsLinux(d.T, "the admin socket is a named pipe, which tests do not open")
	c := adminsocket.NewClient(d.Socket)
	d.Cleanup(c.Close)
	return c
}

// Line is the command line of portald on the node.
func (b *Bed) Line(args ...string) []string {
	b.Helper()
	if b.Windows != nil {
		line, err := b.Windows.Line(Portald, args...)
		b.Must(err)
		return line
	}
	return append([]string{cmp.Or(b.Program, Portald)}, args...)
}

// RecordFile is the path of the daemon's connection log.
func (b *Bed) RecordFile() string { return filepath.Join(b.Dir, "records") }

// Exec is Launch with a complete command line.
func (b *Bed) Exec(line ...string) *Daemon {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d := &Daemon{Bed: b, cancel: cancel, Log: &Output{}, Ended: make(chan struct{}), File: b.RecordFile()}
	d.Cmd = b.Node.Command(ctx, line[0], line[1:]...)
	d.Cmd.Stderr, d.Cmd.Stdout = d.Log, d.Log
	d.Cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // no second of sleep at exit
	if err := d.Cmd.Start(); err != nil {
		b.Fatal(err)
	}
	go func() {
		_ = d.Cmd.Wait() // Exit reads the result from ProcessState
		close(d.Ended)
	}()
	b.Cleanup(d.cleanup)
	return d
}

// noProgram matches a log line of a program that could not be started.
var noProgram = regexp.MustCompile(`(?m)^.* level=error .*: fork/exec .*: Internal error.*\n`)

func (d *Daemon) cleanup() {
	select {
	case <-d.Ended:
	default:
		if code := d.Stop(); code != 0 && d.Windows == nil { // Wine ends it at once
			d.Errorf("portald ended with code %d", code)
		}
	}
	d.cancel()
	log := d.Log.String()
	if d.Windows != nil { // Wine fails to start a program now and then, and portald tries again
		log = noProgram.ReplaceAllString(log, "")
	}
	for _, bad := range []string{"DATA RACE", "panic:", "fatal error:", "level=error"} {
		if bad == "level=error" && d.ExpectErrors {
			continue
		}
		if strings.Contains(log, bad) {
			d.Errorf("portald's log contains %q", bad)
		}
	}
	if d.Failed() {
		d.Logf("log of portald:\n%s", log[max(0, len(log)-8000):])
	}
}

// Stop sends SIGTERM, a second time after 3 seconds so that open connections are cut, and returns the exit code.
func (d *Daemon) Stop() int {
	d.Signal(syscall.SIGTERM)
	select {
	case <-d.Ended:
	case <-time.After(3 * time.Second):
		d.Signal(syscall.SIGTERM)
	}
	return d.Exit()
}

// Signal sends a signal to the process.
func (d *Daemon) Signal(s syscall.Signal) {
	_ = d.Cmd.Process.Signal(s) // it may have ended
}

// LimitFiles sets the limit of open descriptors by how many are open, until give is called.
func (d *Daemon) LimitFiles(limit func(open int) int) (give func()) {
	d.Helper()
	pid := d.Cmd.Process.Pid
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	d.Must(err)
	var usual unix.Rlimit
	d.Must(unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &usual))
	few := unix.Rlimit{Cur: uint64(limit(len(open))), Max: usual.Max}
	d.Must(unix.Prlimit(pid, unix.RLIMIT_NOFILE, &few, nil))
	return func() { d.Must(unix.Prlimit(pid, unix.RLIMIT_NOFILE, &usual, nil)) }
}

// Exit waits for the end of the process and returns its exit code, -1 if a signal ended it.
func (d *Daemon) Exit() int {
	select {
	case <-d.Ended:
	case <-time.After(Patience):
		d.Errorf("portald did not exit within %s and is killed", Patience)
		d.cancel()
		<-d.Ended
	}
	if d.Windows != nil {
		d.socketsGone()
	}
	return d.Cmd.ProcessState.ExitCode()
}

// socketsGone waits until Wine's server, which owns the sockets, has closed those of the process.
func (d *Daemon) socketsGone() {
	Within(5*time.Second, func() bool {
		c, err := d.Node.Dial(context.Background(), "tcp", "127.0.0.1:10256")
		if err == nil {
			c.Close()
		}
		return err != nil
	})
}

// Apply replaces the manifests and waits until portald has applied the change.
func (d *Daemon) Apply(manifests any) {
	d.Helper()
	before := d.syncs()
	d.WriteManifest(Manifest, manifests)
	d.Eventually("the change to be applied", func() bool { return d.syncs() > before })
}

// applied matches the log line of a finished sync after which no change is waiting for another, of this version and of
// that of .ci/version-before.
var applied = regexp.MustCompile(`(?m)msg="(Applied changes|Applied everything again|Changes were applied|` +
	`Everything was applied again)" took=\S+( why=("(\\.|[^"\\])*"|\S+))?$`)

// syncs is the number of times that portald applied changes.
func (d *Daemon) syncs() int { return len(applied.FindAllString(d.Log.String(), -1)) }

// Get sends a GET request from the node to a server on the node.
func (b *Bed) Get(address, path string) (code int, body string, err error) {
	return Fetch(b.Node, address, path)
}

// Fetch sends a GET request from a host to an HTTP server.
func Fetch(from *topology.Host, address, path string) (code int, body string, err error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
			defer cancel()
			return from.Dial(ctx, network, address)
		},
	}
	// The metrics of 2,000 Services are 5 MB, which take seconds with the race detector, more on a busy machine.
	c := &http.Client{Transport: transport, Timeout: 5 * AnswerTimeout}
	r, err := c.Get("http://" + address + path)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	return r.StatusCode, string(all), err
}

// Metric returns the value of one series of /metrics, 0 if it is absent.
func (d *Daemon) Metric(series string) float64 {
	d.Helper()
	return d.MetricIn(d.Metrics(), series)
}

// Metrics is the page /metrics. It is asked for again where the server gave up on a client that got no CPU time.
func (d *Daemon) Metrics() (body string) {
	d.Helper()
	d.Eventually("the metrics", func() bool {
		code, page, err := d.Get("127.0.0.1:10249", "/metrics")
		body = page
		return err == nil && code == http.StatusOK
	})
	return body
}

// MetricIn is Metric in a page of /metrics.
func (d *Daemon) MetricIn(body, series string) float64 {
	d.Helper()
	for line := range strings.Lines(body) {
		if name, value, ok := CutLast(strings.TrimSpace(line), " "); ok && name == series {
			v, err := strconv.ParseFloat(value, 64)
			d.Must(err)
			return v
		}
	}
	return 0
}

// MemoryIn is the memory that the daemon has of the system, in bytes, by a page of /metrics. Resident memory has that
// of the race detector too, which grows and shrinks by more than a leak would.
func (d *Daemon) MemoryIn(body string) float64 {
	d.Helper()
	return d.MetricIn(body, "go_memstats_sys_bytes") - d.MetricIn(body, "go_memstats_heap_released_bytes")
}

// CutLast cuts s around the last separator.
func CutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

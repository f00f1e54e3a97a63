package bed

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/portald/portald/integration/topology"
)

// Daemon is a portald that runs on the node.
type Daemon struct {
	*Bed
	Cmd    *exec.Cmd
	cancel context.CancelFunc
	Log    *Output
	Ended  chan struct{} // closed when it has
	File   string        // of records
	Errors bool          // are to be in its log
}

// Output collects what a process says.
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

// Manifest is the file that start and apply write.
const Manifest = "services.yaml"

// Start runs portald with these manifests and waits until it is ready. It writes records to a file as JSON.
func (b *Bed) Start(manifests any, args ...string) *Daemon {
	b.Helper()
	path := b.WriteManifest(Manifest, manifests)
	return b.StartWith(append([]string{"--manifests", path}, args...)...)
}

// StartWith is start without manifests of its own.
func (b *Bed) StartWith(args ...string) *Daemon {
	b.Helper()
	d := b.Launch(nil, args...)
	d.WaitReady()
	return d
}

// WaitReady waits until it serves.
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

// Launch runs portald, behind a wrapper command if there is one. It is stopped when the test ends, if it still runs.
func (b *Bed) Launch(wrapper []string, args ...string) *Daemon {
	b.Helper()
	line := append(wrapper, Portald, "--log-level=debug", "--hostname-override=here",
		"--connection-log="+b.RecordFile(), "--connection-log-format=json")
	return b.Exec(append(line, args...)...)
}

// RecordFile is where daemon looks for records.
func (b *Bed) RecordFile() string { return filepath.Join(b.Dir, "records") }

// Exec is launch with a command line of the test's own.
func (b *Bed) Exec(line ...string) *Daemon {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d := &Daemon{Bed: b, cancel: cancel, Log: &Output{}, Ended: make(chan struct{}), File: b.RecordFile()}
	d.Cmd = b.Node.Command(ctx, line[0], line[1:]...)
	d.Cmd.Stderr, d.Cmd.Stdout = d.Log, d.Log
	d.Cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // a second in which no signal is expected any more
	if err := d.Cmd.Start(); err != nil {
		b.Fatal(err)
	}
	go func() {
		_ = d.Cmd.Wait() // its state tells
		close(d.Ended)
	}()
	b.Cleanup(d.cleanup)
	return d
}

func (d *Daemon) cleanup() {
	select {
	case <-d.Ended:
	default:
		if code := d.Stop(); code != 0 {
			d.Errorf("portald ended with code %d", code)
		}
	}
	d.cancel()
	said := d.Log.String()
	for _, bad := range []string{"DATA RACE", "panic:", "fatal error:", "level=error"} {
		if bad == "level=error" && d.Errors {
			continue
		}
		if strings.Contains(said, bad) {
			d.Errorf("portald says %q", bad)
		}
	}
	if d.Failed() {
		d.Logf("portald said:\n%s", said[max(0, len(said)-8000):])
	}
}

// Stop ends it by SIGTERM, twice so that nothing open delays it, and returns its exit code.
func (d *Daemon) Stop() int {
	d.Signal(syscall.SIGTERM)
	select {
	case <-d.Ended:
	case <-time.After(3 * time.Second):
		d.Signal(syscall.SIGTERM)
	}
	return d.Exit()
}

func (d *Daemon) Signal(s syscall.Signal) {
	_ = d.Cmd.Process.Signal(s) // it may have ended
}

// Exit waits for its end and returns its exit code; -1 is a signal.
func (d *Daemon) Exit() int {
	select {
	case <-d.Ended:
	case <-time.After(20 * time.Second):
		d.Error("portald did not end in 20s; it is killed")
		d.cancel()
		<-d.Ended
	}
	return d.Cmd.ProcessState.ExitCode()
}

// Apply replaces the manifests and waits until portald has applied the change.
func (d *Daemon) Apply(manifests any) {
	d.Helper()
	before := d.rounds()
	d.WriteManifest(Manifest, manifests)
	d.Eventually("the change to be applied", func() bool { return d.rounds() > before })
}

var applied = regexp.MustCompile(`msg="(Changes were applied|Everything was applied again)"`)

// rounds is how often changes were applied.
func (d *Daemon) rounds() int { return len(applied.FindAllString(d.Log.String(), -1)) }

// Get asks a server on the node, from there.
func (b *Bed) Get(address, path string) (code int, body string, err error) {
	return Fetch(b.Node, address, path)
}

// Fetch asks a server by HTTP.
func Fetch(from *topology.Host, address, path string) (code int, body string, err error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return from.Dial(ctx, network, address)
		},
	}
	c := &http.Client{Transport: transport, Timeout: AnswerTimeout}
	r, err := c.Get("http://" + address + path)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	return r.StatusCode, string(all), err
}

// Metric is the value of one line of /metrics, 0 if it is not there.
func (d *Daemon) Metric(series string) float64 {
	d.Helper()
	_, body, err := d.Get("127.0.0.1:10249", "/metrics")
	if err != nil {
		d.Fatal(err)
	}
	for line := range strings.Lines(body) {
		if name, value, ok := CutLast(strings.TrimSpace(line), " "); ok && name == series {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				d.Fatal(err)
			}
			return v
		}
	}
	return 0
}

func CutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

package integration

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

// daemon is a portald that runs on the node.
type daemon struct {
	*bed
	cmd    *exec.Cmd
	cancel context.CancelFunc
	log    *text
	ended  chan struct{} // closed when it has
	file   string        // of records
	errors bool          // are to be in its log
}

// text collects what a process says.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// manifest is the file that start and apply write.
const manifest = "services.yaml"

// start runs portald with these manifests and waits until it is ready. It writes records to a file as JSON.
func (b *bed) start(manifests any, args ...string) *daemon {
	b.Helper()
	path := b.write(manifest, manifests)
	return b.startWith(append([]string{"--manifests", path}, args...)...)
}

// startWith is start without manifests of its own.
func (b *bed) startWith(args ...string) *daemon {
	b.Helper()
	d := b.launch(nil, args...)
	d.waitReady()
	return d
}

// waitReady waits until it serves.
func (d *daemon) waitReady() {
	d.Helper()
	d.eventually("portald to be ready", func() bool {
		select {
		case <-d.ended:
			d.Fatalf("portald ended: %s", d.log)
		default:
		}
		code, _, err := d.get("127.0.0.1:10256", "/healthz")
		return err == nil && code == http.StatusOK
	})
}

// launch runs portald, behind a wrapper command if there is one. It is stopped when the test ends, if it still runs.
func (b *bed) launch(wrapper []string, args ...string) *daemon {
	b.Helper()
	line := append(wrapper, portald, "--log-level=debug", "--hostname-override=here",
		"--connection-log="+b.recordFile(), "--connection-log-format=json")
	return b.exec(append(line, args...)...)
}

// recordFile is where daemon looks for records.
func (b *bed) recordFile() string { return filepath.Join(b.dir, "records") }

// exec is launch with a command line of the test's own.
func (b *bed) exec(line ...string) *daemon {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d := &daemon{bed: b, cancel: cancel, log: &text{}, ended: make(chan struct{}), file: b.recordFile()}
	d.cmd = b.node.Command(ctx, line[0], line[1:]...)
	d.cmd.Stderr, d.cmd.Stdout = d.log, d.log
	d.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // a second in which no signal is expected any more
	if err := d.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	go func() {
		_ = d.cmd.Wait() // its state tells
		close(d.ended)
	}()
	b.Cleanup(d.cleanup)
	return d
}

func (d *daemon) cleanup() {
	select {
	case <-d.ended:
	default:
		if code := d.stop(); code != 0 {
			d.Errorf("portald ended with code %d", code)
		}
	}
	d.cancel()
	said := d.log.String()
	for _, bad := range []string{"DATA RACE", "panic:", "fatal error:", "level=error"} {
		if bad == "level=error" && d.errors {
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

// stop ends it by SIGTERM, twice so that nothing open delays it, and returns its exit code.
func (d *daemon) stop() int {
	d.signal(syscall.SIGTERM)
	select {
	case <-d.ended:
	case <-time.After(3 * time.Second):
		d.signal(syscall.SIGTERM)
	}
	return d.exit()
}

func (d *daemon) signal(s syscall.Signal) {
	_ = d.cmd.Process.Signal(s) // it may have ended
}

// exit waits for its end and returns its exit code; -1 is a signal.
func (d *daemon) exit() int {
	select {
	case <-d.ended:
	case <-time.After(20 * time.Second):
		d.Error("portald did not end in 20s; it is killed")
		d.cancel()
		<-d.ended
	}
	return d.cmd.ProcessState.ExitCode()
}

// apply replaces the manifests and waits until portald has applied the change.
func (d *daemon) apply(manifests any) {
	d.Helper()
	before := d.rounds()
	d.write(manifest, manifests)
	d.eventually("the change to be applied", func() bool { return d.rounds() > before })
}

var applied = regexp.MustCompile(`msg="(Changes were applied|All was applied anew)"`)

// rounds is how often changes were applied.
func (d *daemon) rounds() int { return len(applied.FindAllString(d.log.String(), -1)) }

// get asks a server on the node, from there.
func (b *bed) get(address, path string) (code int, body string, err error) {
	return fetch(b.node, address, path)
}

// fetch asks a server by HTTP.
func fetch(from *topology.Host, address, path string) (code int, body string, err error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return from.Dial(ctx, network, address)
		},
	}
	c := &http.Client{Transport: transport, Timeout: patience}
	r, err := c.Get("http://" + address + path)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	return r.StatusCode, string(all), err
}

// metric is the value of one line of /metrics, 0 if it is not there.
func (d *daemon) metric(series string) float64 {
	d.Helper()
	_, body, err := d.get("127.0.0.1:10249", "/metrics")
	if err != nil {
		d.Fatal(err)
	}
	for line := range strings.Lines(body) {
		if name, value, ok := cutLast(strings.TrimSpace(line), " "); ok && name == series {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				d.Fatal(err)
			}
			return v
		}
	}
	return 0
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

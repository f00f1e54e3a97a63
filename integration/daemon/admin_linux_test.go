package daemon

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/portald/portald/integration/bed"
	"github.com/portald/portald/proxy/adminsocket"
)

// Open connections are listed at the admin socket, with their endpoints and bytes, and cut there.
func TestConnectionsAreListedAndCut(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	c, r, a := b.Open(bed.HostPort(bed.IP4, 80))
	kept, keptReader, _ := b.Open(bed.HostPort(bed.IP4, 80))
	client := d.Admin()
	info, err := client.Info(t.Context())
	b.Must(err)
	if info.Node != "here" || info.PID == 0 || !info.Ready || info.Mode != "userspace" || info.LogLevel != "debug" {
		t.Errorf("%+v", info)
	}
	var one adminsocket.Connection
	b.Eventually("the pod's bytes to be counted", func() bool { // a moment after they are sent
		mine, err := client.Connections(t.Context(), adminsocket.ConnectionQuery{Ports: []uint16{bed.LocalAddr(c).Port()}})
		b.Must(err)
		if len(mine) != 1 {
			t.Fatalf("listed: %+v", mine)
		}
		one = mine[0]
		return one.BytesFromEndpoint > 0
	})
	if one.Service != "shop/cart:http" || one.Protocol != "tcp" || one.CarriedBy != "userspace" ||
		one.Client != bed.LocalAddr(c) || one.OriginalDst.String() != bed.HostPort(bed.IP4, 80) ||
		one.Portal != "ClusterIP" || !strings.HasSuffix(one.Pod, a.Pod) {
		t.Errorf("listed as %+v", one)
	}
	cut, err := client.Cut(t.Context(), one.ID, 1<<60)
	b.Must(err)
	if len(cut.Cut) != 1 || len(cut.Missing) != 1 {
		t.Errorf("%+v", cut)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("the connection is open")
	}
	if r := d.RecordOf(a); r.Outcome != "cut" {
		t.Errorf("recorded as %s", r)
	}
	if err := bed.Echoes(kept, keptReader); err != nil {
		t.Errorf("the other connection: %v", err)
	}
}

// The level of the log changes at once.
func TestLogLevelChanges(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0), "--log-level=info")
	d.WriteManifest(bed.Manifest, b.Simple("one", "10.96.7.7", 0))
	b.Eventually("the change to be applied", func() bool {
		_, err := bed.Ask(b.Client, "tcp", "10.96.7.7:80")
		return err == nil
	})
	if strings.Contains(d.Log.String(), "level=debug") {
		t.Fatal("debug lines at level info")
	}
	b.Must(d.Admin().SetLogLevel(t.Context(), "debug"))
	d.WriteManifest(bed.Manifest, b.Cart(0))
	b.Eventually("a debug line", func() bool { return strings.Contains(d.Log.String(), "level=debug") })
	if err := d.Admin().SetLogLevel(t.Context(), "loud"); err == nil || !strings.Contains(err.Error(), "one of error") {
		t.Error(err)
	}
}

// A daemon leaves the socket of another alone, and serves. The socket of one that was killed is replaced, and that of
// one that ends is removed.
func TestAdminSocketOfAnother(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	first := b.Start(b.Cart(0))
	second := b.Launch(nil, "--manifests", filepath.Join(b.Dir, bed.Manifest), "--admin-socket", first.Socket,
		"--healthz-bind-address=", "--metrics-bind-address=", "--service-proxy-name=other")
	b.Eventually("a warning", func() bool { return strings.Contains(second.Log.String(), "another portald answers") })
	second.Stop()
	client := first.Admin()
	if info, err := client.Info(t.Context()); err != nil || info.PID != first.Cmd.Process.Pid {
		t.Errorf("the first daemon: %+v, %v", info, err)
	}
	first.Signal(syscall.SIGKILL)
	first.Exit()
	if _, err := client.Info(t.Context()); !errors.Is(err, adminsocket.ErrNotReachable) {
		t.Errorf("after it was killed: %v", err)
	}
	third := b.Start(b.Cart(0), "--admin-socket", first.Socket)
	if info, err := client.Info(t.Context()); err != nil || info.PID != third.Cmd.Process.Pid {
		t.Errorf("the third daemon: %+v, %v", info, err)
	}
	third.Stop()
	if _, err := os.Stat(first.Socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket after the end: %v", err)
	}
}

// The metrics address shows what is open where that is configured, to this node alone, and changes nothing.
func TestReadOnlyAPI(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0))
	for _, path := range []string{"/v1/", "/v1/info", "/v1/connections", "/v1/records", "/v1/services", "/v1/endpoints"} {
		if code, body, err := d.Get("127.0.0.1:10249", path); err != nil || code != http.StatusNotFound {
			t.Errorf("%s by default: %d %s %v", path, code, body, err)
		}
	}
	d.Stop()
	d = b.Start(b.Cart(0), "--metrics-bind-address=0.0.0.0:10249", "--read-only-api")
	b.Open(bed.HostPort(bed.IP4, 80))
	code, body, err := d.Get("127.0.0.1:10249", "/v1/connections?service=cart")
	if err != nil || code != http.StatusOK || !strings.Contains(body, `"service":"shop/cart:http"`) {
		t.Errorf("%d %s %v", code, body, err)
	}
	code, body, err = bed.Fetch(b.Client, b.Node.IPv4.String()+":10249", "/v1/connections")
	if err != nil || code != http.StatusForbidden {
		t.Errorf("from another host: %d %s %v", code, body, err)
	}
	if code, _, err = bed.Fetch(b.Client, b.Node.IPv4.String()+":10249", "/metrics"); err != nil || code != http.StatusOK {
		t.Errorf("metrics from another host: %d %v", code, err)
	}
	if code, body, err = d.Get("127.0.0.1:10249", "/ui/"); err != nil || code != http.StatusNotFound {
		t.Errorf("the page, which is a setting of its own: %d %s %v", code, body, err)
	}
	code, _, err = d.Get("127.0.0.1:10249", "/v1/cut")
	if err != nil || code != http.StatusNotFound {
		t.Errorf("cut: %d %v", code, err)
	}
}

// The page is served at the metrics address where that is configured, with what readOnlyAPI shows, to this node alone.
func TestPage(t *testing.T) {
	b := bed.New(t)
	b.ServePods(0)
	d := b.Start(b.Cart(0), "--metrics-bind-address=0.0.0.0:10249", "--read-only-api", "--ui")
	b.ServedBy(bed.IP4, "pod0")
	for path, want := range map[string]string{
		"/ui/": `<script type="module" src="main.js">`, "/ui/main.js": "import", "/ui/api/about": `{"explain":false}`,
		"/ui/api/nodes": `"portald_node":`, "/ui/api/endings?kind=all": `"service":"shop/cart:http"`,
		"/ui/api/service?name=shop/cart:http&protocol=tcp": `"pod":"shop/pod0"`,
	} {
		if code, body, err := d.Get("127.0.0.1:10249", path); err != nil || code != http.StatusOK ||
			!strings.Contains(body, want) {
			t.Errorf("%s: %d %.300s %v", path, code, body, err)
		}
		code, body, err := bed.Fetch(b.Client, b.Node.IPv4.String()+":10249", path)
		if err != nil || code != http.StatusForbidden {
			t.Errorf("%s from another host: %d %.300s %v", path, code, body, err)
		}
	}
	b.Eventually("the Services", func() bool {
		_, body, err := d.Get("127.0.0.1:10249", "/ui/api/overview")
		return err == nil && strings.Contains(body, `"name":"shop/cart:http"`)
	})
	if code, body, err := d.Get("127.0.0.1:10249", "/ui/api/explain?what=shop/cart"); err != nil ||
		code != http.StatusNotFound {
		t.Errorf("explain, which is for root: %d %.300s %v", code, body, err)
	}
	if _, body, err := d.Get("127.0.0.1:10249", "/statusz"); err != nil || !strings.Contains(body, " /ui ") {
		t.Errorf("/statusz does not list the page: %s %v", body, err)
	}
}

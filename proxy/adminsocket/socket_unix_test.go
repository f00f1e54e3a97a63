//go:build unix

package adminsocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/portald/portald/platform/netnstest"
)

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// The socket is for its user alone, and gone when it is closed.
func TestSocketIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "admin.sock")
	l, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if s, f := mode(t, path), mode(t, filepath.Dir(path)); s != 0o600 || f != 0o700 {
		t.Errorf("socket %o, folder %o", s, f)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("beside the socket there is %v", left)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the end: %v", err)
	}
}

// A socket that another process left behind is replaced; one that answers is left alone; a file that is no socket too.
func TestSocketThatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	first, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal("stale socket:", err)
	}
	if _, err := Listen(t.Context(), path); !errors.Is(err, ErrInUse) {
		t.Errorf("socket in use: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	if !answers(path) {
		t.Error("the end of one removed the socket of another")
	}
	_ = second.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), path); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("file: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Error("a file was replaced")
	}
}

// asNobody runs this test again as another user, and returns what it prints.
func asNobody(t *testing.T, path string) string {
	t.Helper()
	if os.Getuid() != 0 {
		netnstest.Missing(t, "needs root: only root can be another user")
	}
	// The test program is in a folder of root's, so it is given as an open file.
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	again := exec.CommandContext(t.Context(), "/proc/self/fd/3", "-test.run=^"+t.Name()+"$", "-test.v")
	again.ExtraFiles = []*os.File{self}
	again.Env, again.Dir = []string{"ADMIN_SOCKET=" + path}, "/"
	again.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := again.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// Another user cannot ask, even where the folder is open to all, nor where the socket is; and is told to be root.
func TestOtherUsersAreRefused(t *testing.T) {
	if path := os.Getenv("ADMIN_SOCKET"); path != "" {
		_, err := NewClient(path).Info(t.Context())
		t.Logf("permission: %t, closed: %t, says root: %t: %v", errors.Is(err, ErrPermission),
			errors.Is(err, ErrNotReachable), strings.Contains(fmt.Sprint(err), "root"), err)
		return
	}
	folder, err := os.MkdirTemp("", "open")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "admin.sock")
	l, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: NewHandler((&fake{}).daemon())}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	if out := asNobody(t, path); !strings.Contains(out, "permission: true, closed: false, says root: true") {
		t.Error(out)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if out := asNobody(t, path); !strings.Contains(out, "permission: false, closed: true, says root: true") {
		t.Error(out)
	}
	if _, err := NewClient(path).Info(t.Context()); err != nil {
		t.Error("root, after that:", err)
	}
}

// greets accepts connections at a socket, writes a greeting to each, and closes it at once.
func greets(t *testing.T, greeting string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for connection, err := l.Accept(); err == nil; connection, err = l.Accept() {
			_, _ = io.WriteString(connection, greeting)
			_ = connection.Close()
		}
	}()
	return path
}

// Another program may listen where portald is asked.
func TestAnotherProgramAnswers(t *testing.T) {
	_, err := NewClient(greets(t, "220 mail.example.org ESMTP\r\n")).Info(t.Context())
	if !errors.Is(err, ErrNotReachable) || !strings.Contains(fmt.Sprint(err), "another program listens there") {
		t.Error(err)
	}
}

// A daemon closes the connections of other users at once: the client says so wherever net/http was by then.
func TestClosedAtOnce(t *testing.T) {
	path := greets(t, "")
	for range 2000 {
		_, err := NewClient(path).Info(t.Context())
		if !errors.Is(err, ErrNotReachable) || !strings.Contains(fmt.Sprint(err), "neither root") {
			t.Fatal(err)
		}
	}
}

// A client says what is wrong, and what to do.
func TestClientIsNotServed(t *testing.T) {
	f := &fake{}
	folder := t.TempDir()
	_, err := NewClient(filepath.Join(folder, "none")).Info(t.Context())
	if !errors.Is(err, ErrNotReachable) || !strings.Contains(err.Error(), "--socket") {
		t.Errorf("no socket: %v", err)
	}
	newer := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(HeaderVersion, "2")
		_, _ = w.Write([]byte("{}"))
	}))
	if _, err := newer.Info(t.Context()); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), `"2"`) {
		t.Errorf("another version: %v", err)
	}
	c := serve(t, NewHandler(f.daemon()))
	err = c.Get(t.Context(), "/v1/future", nil, &struct{}{})
	if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "newer release") {
		t.Errorf("a path of a newer release: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Info(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

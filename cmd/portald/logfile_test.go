package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func testLog(t *testing.T, path string) *logFile {
	t.Helper()
	l := &logFile{path: path, max: 1000}
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func contents(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A log has at most two files of a bounded size, and the newest lines, in whole.
func TestLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "portald.log")
	var want strings.Builder
	l := testLog(t, path)
	for i := range 100 {
		if i%7 == 0 { // as after a restart
			l.Close()
			l = testLog(t, path)
		}
		fmt.Fprintf(l, "line %094d\n", i)
		if i >= 80 {
			fmt.Fprintf(&want, "line %094d\n", i)
		}
	}
	if got := contents(t, path+".1") + contents(t, path); got != want.String() {
		t.Errorf("%d bytes:\n%s", len(got), got)
	}
}

// A line longer than the bound is written, and rotation that is not possible loses nothing.
func TestLogThatCannotBeRenamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "portald.log")
	if err := os.MkdirAll(filepath.Join(path+".1", "full"), 0o755); err != nil { // no file replaces it
		t.Fatal(err)
	}
	l := testLog(t, path)
	long := strings.Repeat("x", 2000) + "\n"
	for _, line := range []string{long, "short\n", long} {
		if n, err := l.Write([]byte(line)); err != nil || n != len(line) {
			t.Fatal(n, err)
		}
	}
	if got := contents(t, path); got != long+"short\n"+long {
		t.Errorf("%d bytes", len(got))
	}
}

// A log whose folder is lost goes on when there is one again.
func TestLogWithoutFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l := testLog(t, filepath.Join(dir, "portald.log"))
	l.size = l.max // so that the next line rotates
	if err := l.file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := l.Write([]byte("lost\n")); err == nil {
			t.Fatal("no error without a folder")
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Write([]byte("again\n")); err != nil || contents(t, l.path) != "again\n" {
		t.Error(err)
	}
}

// The log is where the configuration says, with its warnings.
func TestOpenLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "portald.log")
	flags, err := parseDaemon([]string{"--manifests=x", "--log-file=" + path})
	if err != nil {
		t.Fatal(err)
	}
	cfg, _, err := flags.Complete()
	if err != nil {
		t.Fatal(err)
	}
	_, closeLog, err := openLog(cfg, []string{"no effect: much"})
	if err != nil || closeLog() != nil || !strings.Contains(contents(t, path), "no effect: much") {
		t.Errorf("%v, %s", err, contents(t, path))
	}
	cfg.LogPath = filepath.Join(t.TempDir(), "none", "portald.log")
	if _, _, err := openLog(cfg, nil); err == nil || !strings.Contains(err.Error(), cfg.LogPath) {
		t.Error(err)
	}
}

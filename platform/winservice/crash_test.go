package winservice

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// The test runs itself, with this variable naming a folder, as the process that panics.
const crashDir = "WINSERVICE_CRASH"

// A panic on any goroutine of one run is reported by the next run, once.
func TestCrash(t *testing.T) {
	if dir := os.Getenv(crashDir); dir != "" {
		if _, err := WatchCrashes(dir); err != nil {
			t.Fatal(err)
		}
		go panic("the engine is broken")
		select {}
	}
	dir := t.TempDir()
	t.Cleanup(func() { debug.SetCrashOutput(nil, debug.CrashOptions{}) }) // closes the file, which Windows wants
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrash$")
	child.Env = append(os.Environ(), crashDir+"="+dir)
	if err := child.Run(); err == nil {
		t.Fatal("the process did not panic")
	}
	last, err := WatchCrashes(dir)
	if err != nil || !strings.HasPrefix(last, "panic: the engine is broken") ||
		!strings.HasSuffix(last, filepath.Join(dir, lastCrash)) || strings.Count(last, "\n") > crashLines {
		t.Errorf("%q, %v", last, err)
	}
	if last, err := WatchCrashes(dir); err != nil || last != "" {
		t.Errorf("told again: %q, %v", last, err)
	}
	if _, err := WatchCrashes(filepath.Join(dir, "none")); err == nil {
		t.Error("no error for a folder that is not there")
	}
}

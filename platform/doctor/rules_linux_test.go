package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A lock that is held is seen, with the process that holds it, and a free one is free.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "xtables.lock")
	t.Setenv("XTABLES_LOCKFILE", path)
	free := func(what string) {
		t.Helper()
		if l, err := readLock(t.Context()); err != nil || l.By != "" || isHeld(path) {
			t.Errorf("%s: %+v, %v", what, l, err)
		}
	}
	free("no file")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	free("not held")
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if l, err := readLock(t.Context()); err != nil || !strings.Contains(l.By, "(pid ") || l.Held < longHeld {
		t.Errorf("held: %+v, %v", l, err)
	}
	if !isHeld(path) {
		t.Error("a lock that is held is not noticed without /proc/locks")
	}
	file.Close()
	free("released")
}
